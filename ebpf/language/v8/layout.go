package v8

import (
	_ "embed"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

//go:embed layouts.txt
var layoutTable string

// absent is the value of a field that a version does not have.
const absent = -1

// Layout is the object layout of a version of V8. Each field is a line of layouts.txt, named by its tag.
type Layout struct {
	MapType int `v8:"Map.instance_type"`

	FunctionShared int `v8:"JSFunction.shared"`

	SharedData    int `v8:"SFI.data"`
	SharedName    int `v8:"SFI.name"`
	SharedScript  int `v8:"SFI.script"`
	SharedLiteral int `v8:"SFI.literal"`

	ScriptSource     int `v8:"Script.source"`
	ScriptName       int `v8:"Script.name"`
	ScriptLineOffset int `v8:"Script.line_offset"`

	BytecodePositions int `v8:"BytecodeArray.positions"`
	BytecodeData      int `v8:"BytecodeArray.data"`

	InterpreterBytecode int `v8:"InterpreterData.bytecode"`
	BytesData           int `v8:"ByteArray.data"`
	ArrayLength         int `v8:"Array.length"` // also of arrays of bytes and of bytecode

	StreamCode  int `v8:"Stream.code"`  // of machine code: the object that describes it; absent: the stream itself
	StreamStart int `v8:"Stream.start"` // the first instruction

	CodeDeopt     int `v8:"Code.deopt"`     // deoptimisation data; of baseline code: its bytecode
	CodePositions int `v8:"Code.positions"` // of baseline code: its bytecode offsets
	CodeStart     int `v8:"Code.start"`     // absent if StreamStart is used
	CodeSize      int `v8:"Code.size"`

	DeoptLiterals int `v8:"Deopt.literals"` // indices in the deoptimisation data of optimised code
	DeoptShared   int `v8:"Deopt.shared"`
	DeoptInlining int `v8:"Deopt.inlining"`

	PositionFlags int `v8:"Position.flags"` // flag bits below the code delta; absent: the sign of the delta is the flag

	ScopeFlags     int `v8:"Scope.flags"`     // shift of the flags in their word
	ScopePositions int `v8:"Scope.positions"` // word with the positions; absent: they follow the names
	ScopeFirst     int `v8:"Scope.first"`     // first word after the numbers
	ScopeModule    int `v8:"Scope.module"`    // type of the scope of a module

	StringLength   int `v8:"String.length"`
	StringFirst    int `v8:"String.first"`
	StringSecond   int `v8:"String.second"`
	StringParent   int `v8:"String.parent"`
	StringOffset   int `v8:"String.offset"`
	StringActual   int `v8:"String.actual"`
	StringExternal int `v8:"String.external"`
	StringChars    int `v8:"String.chars"`

	TypeNonString   int `v8:"Type.nonstring"` // the first such type
	TypeShared      int `v8:"Type.shared"`
	TypeScript      int `v8:"Type.script"`
	TypeScope       int `v8:"Type.scope"`
	TypeBytecode    int `v8:"Type.bytecode"`
	TypeInterpreter int `v8:"Type.interpreter"`
	TypeCode        int `v8:"Type.code"`
	TypeStream      int `v8:"Type.stream"`
}

// version is a version of V8, without its build and patch.
type version struct{ Major, Minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (v version) isBefore(w version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// layouts is the parsed layouts.txt.
type layouts struct {
	versions []version
	of       []Layout
	symbols  map[string][]string // symbol names of a field in binaries, by field
}

// readLayouts parses a table in the format of layouts.txt.
func readLayouts(text string) (*layouts, error) {
	t := &layouts{symbols: map[string][]string{}}
	seen := map[string]bool{}
	for n, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		var err error
		if words[0] == "version" {
			err = t.header(words[1:])
		} else {
			seen[words[0]] = true
			err = t.parseLine(words)
		}
		if err != nil {
			return nil, fmt.Errorf("layouts, line %d: %w", n+1, err)
		}
	}
	for name := range fields(&Layout{}) {
		if !seen[name] {
			return nil, fmt.Errorf("layouts: no line %s", name)
		}
	}
	return t, nil
}

func (t *layouts) header(words []string) error {
	for _, w := range words {
		var v version
		if _, err := fmt.Sscanf(w, "%d.%d", &v.Major, &v.Minor); err != nil {
			return fmt.Errorf("version %q: %w", w, err)
		}
		t.versions = append(t.versions, v)
	}
	t.of = make([]Layout, len(t.versions))
	return nil
}

func (t *layouts) parseLine(words []string) error {
	if len(words)-1 < len(t.versions) {
		return fmt.Errorf("%s has %d of %d values", words[0], len(words)-1, len(t.versions))
	}
	for i := range t.versions {
		field, ok := fields(&t.of[i])[words[0]]
		if !ok {
			return fmt.Errorf("%s is no field", words[0])
		}
		value := absent
		if word := words[1+i]; word != "-" {
			var err error
			if value, err = strconv.Atoi(word); err != nil || value < 0 || value > maxField {
				return fmt.Errorf("%s: %q", words[0], word)
			}
		}
		*field = value
	}
	for _, name := range words[1+len(t.versions):] {
		t.symbols[words[0]] = append(t.symbols[words[0]], symbolPrefix+name)
	}
	return nil
}

// maxField bounds the values: offsets in the heads of objects, and types.
const maxField = 1 << 12

// fields returns the fields of a layout by their names in layouts.txt.
func fields(l *Layout) map[string]*int {
	found := map[string]*int{}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		found[v.Type().Field(i).Tag.Get("v8")] = v.Field(i).Addr().Interface().(*int)
	}
	return found
}

// symbolPrefix starts the names of the symbols with which a binary describes its objects to debuggers.
const symbolPrefix = "v8dbg_"

// layout returns the layout of a version. described is the binary's own description, by field. A version that is not in
// the table gets the layout of the nearest earlier version, or of the first, overridden by the binary's description;
// known is then false.
func (t *layouts) layout(v version, described map[string]int) (l Layout, known bool) {
	at := 0
	for i, w := range t.versions {
		if !v.isBefore(w) {
			at = i
		}
	}
	l = t.of[at]
	if t.versions[at] == v {
		return l, true
	}
	for name, field := range fields(&l) {
		if value, ok := described[name]; ok && value >= 0 && value <= maxField {
			*field = value
		}
	}
	return l, false
}
