package v8

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// table reads layouts.txt once.
var table = sync.OnceValues(func() (*layouts, error) { return readLayouts(layoutTable) })

// Symbols of V8's version, which are 32-bit numbers.
const (
	majorSymbol = "_ZN2v88internal7Version6major_E"
	minorSymbol = "_ZN2v88internal7Version6minor_E"
)

// Language detects V8. It implements language.Language.
type Language struct{ lines *lines }

// New returns the language.
func New() Language { return Language{&lines{}} }

// Name is the name of the language: JavaScript as V8 runs it.
const Name = "V8"

// Name implements language.Language.
func (Language) Name() string { return Name }

// Detect implements language.Language.
func (v Language) Detect(_ string, file *elffile.File) language.Library {
	if l := Detect(file); l != nil {
		l.lines = v.lines
		return l
	}
	return detectNameless(file)
}

// Library is a file that contains V8: node, its library, or another program. It implements language.Library.
type Library struct {
	major, minor uint64            // ELF virtual addresses of the version numbers
	described    map[string]uint64 // ELF virtual addresses of the file's description of its objects, by field
	found        chan struct{}     // closed when builtins is set
	builtins     [1]language.Range // V8's own code in the file
	lines        *lines            // of the scripts of all processes
}

// searching limits the search for builtins to one file at a time.
var searching sync.Mutex

// Detect returns the V8 in a file, or nil if there is none.
func Detect(file *elffile.File) *Library {
	major, ok, _ := file.DynamicSymbol(majorSymbol)
	minor, also, _ := file.DynamicSymbol(minorSymbol)
	t, err := table()
	if !ok || !also || err != nil {
		return nil
	}
	l := &Library{
		major: major.Value, minor: minor.Value, described: map[string]uint64{}, found: make(chan struct{}), lines: &lines{},
	}
	for field, names := range t.symbols {
		for _, name := range names {
			if s, ok, _ := file.DynamicSymbol(name); ok {
				l.described[field] = s.Value
			}
		}
	}
	l.search(file)
	return l
}

// search finds the builtins in the background: the symbol table may take long to read from a disk, and the stacks of
// the program need the file now.
func (l *Library) search(file *elffile.File) {
	again, err := file.Reopen()
	if err != nil {
		l.builtins[0] = builtins(file)
		close(l.found)
		return
	}
	go func() {
		searching.Lock()
		defer searching.Unlock()
		l.builtins[0] = builtins(again)
		again.Close()
		close(l.found)
	}()
}

// builtinPrefix starts the names of the symbols of V8's own code in a file.
const builtinPrefix = "Builtins_"

// builtins returns the range of V8's own code in a file: built-in functions, and the interpreter. In a file without
// symbols it returns the range of all code.
func builtins(file *elffile.File) (r language.Range) {
	if low, high, ok, err := file.FunctionRange(builtinPrefix); ok && err == nil {
		return language.Range{Low: low, High: high}
	}
	for _, code := range file.CodeRanges() {
		if r.Low == 0 || code[0] < r.Low {
			r.Low = code[0]
		}
		r.High = max(r.High, code[1])
	}
	return r
}

// Attach implements language.Library: the rows of V8's code are frame pointers.
func (*Library) Attach(language.Process) (language.Code, error) { return nil, language.ErrUnknown }

// Traits implements language.Library.
func (*Library) Traits() language.Traits { return language.Traits{Frames: language.NamedFrames} }

// Evaluation implements language.Library.
func (l *Library) Evaluation() (runs, entering []language.Range) {
	<-l.found
	return l.builtins[:], nil
}

// fewDescribed is the number of described fields from which the layout of an unknown version is trusted.
const fewDescribed = 20

// FindFrames implements language.Library.
func (l *Library) FindFrames(p language.Process) (language.FrameReader, error) {
	select {
	case <-l.found:
	default:
		return nil, language.ErrNotReady
	}
	v, err := l.Version(p.Memory, p.Bias)
	if err != nil {
		return nil, err
	}
	if !v.Known && len(v.Described) < fewDescribed {
		return nil, &language.UnnamedError{
			Frame: fmt.Sprintf("[V8 %d.%d code]", v.Major, v.Minor),
			Hint: fmt.Sprintf("V8 %d.%d is not known: start node with --interpreted-frames-native-stack --perf-basic-prof",
				v.Major, v.Minor),
		}
	}
	return newInterpreter(&v, l.builtins[0], l.lines), nil
}

// Version is the version of V8 in a process, and its object layout.
type Version struct {
	Major, Minor int
	Layout       Layout
	Known        bool           // false: the layout is of another version, overridden by the file's description
	Described    map[string]int // the file's description of its objects, by field
}

// Version reads the version. bias is the load bias of the library.
func (l *Library) Version(memory language.Memory, bias uint64) (Version, error) {
	number := func(vaddr uint64) (int, error) {
		var b [4]byte
		_, err := memory.ReadAt(b[:], int64(vaddr+bias))
		return int(int32(binary.LittleEndian.Uint32(b[:]))), err
	}
	major, err := number(l.major)
	if err != nil {
		return Version{}, fmt.Errorf("version of V8: %w", err)
	}
	minor, err := number(l.minor)
	if err != nil {
		return Version{}, fmt.Errorf("version of V8: %w", err)
	}
	described := map[string]int{}
	for field, vaddr := range l.described {
		if described[field], err = number(vaddr); err != nil {
			return Version{}, fmt.Errorf("V8's description of itself: %w", err)
		}
	}
	t, err := table()
	if err != nil {
		return Version{}, err
	}
	v := Version{Major: major, Minor: minor, Described: described}
	v.Layout, v.Known = t.layout(version{major, minor}, described)
	return v, nil
}
