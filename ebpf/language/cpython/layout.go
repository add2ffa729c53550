package cpython

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

//go:embed layouts.txt
var layoutTable string

// layout is the memory layout of a version of CPython: offsets in bytes, by the names in layouts.txt.
type layout struct {
	minor   int // the version of the layout is 3.minor
	offsets map[string]int64
	assumed bool // the layout is of an older version than the runtime, and must be checked before use
}

// errLayout reports that a runtime's description of itself is invalid.
var errLayout = errors.New("implausible offsets")

// errFreeThreaded reports that a runtime is built without the GIL: its objects have a different layout.
var errFreeThreaded = errors.New("builds without the GIL are not known")

// _Py_DebugOffsets, at the start of _PyRuntime, exists from this version on. Its word wordFreeThreaded is nonzero if
// the runtime is built without the GIL.
const (
	describing       = 13
	wordFreeThreaded = 2
)

// maxOffset bounds offsets: the largest structure, _PyRuntime, has some 500 KiB.
const maxOffset = 1 << 20

// newest returns the newest version in layouts.txt.
func newest() int {
	minors := tableMinors()
	return minors[len(minors)-1]
}

// tableMinors returns the versions in layouts.txt, ascending.
func tableMinors() (minors []int) {
	for line := range strings.Lines(layoutTable) {
		rest, ok := strings.CutPrefix(line, "# field")
		if !ok {
			continue
		}
		for _, version := range strings.Fields(rest) {
			minor, _ := strconv.Atoi(strings.TrimPrefix(version, "3."))
			minors = append(minors, minor)
		}
	}
	return minors
}

// layoutOf returns the layout of CPython 3.minor, or of the newest known version if minor is later. word returns word n
// of _PyRuntime in the file.
func layoutOf(minor int, word func(n uint64) (uint64, error)) (*layout, error) {
	minors := tableMinors()
	column := -1
	for i, m := range minors {
		if m <= minor {
			column = i
		}
	}
	if column < 0 {
		return nil, fmt.Errorf("%w of CPython 3.%d", errors.ErrUnsupported, minor)
	}
	if minor >= describing {
		if free, err := word(wordFreeThreaded); err != nil || free != 0 {
			return nil, errors.Join(errFreeThreaded, err)
		}
	}
	l := &layout{minor: minors[column], assumed: minors[column] != minor, offsets: map[string]int64{}}
	for line := range strings.Lines(layoutTable) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if err := l.setField(fields[0], fields[1+column], word); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// setField sets an offset from an entry of the table.
func (l *layout) setField(field, entry string, word func(n uint64) (uint64, error)) error {
	if entry == "-" {
		return nil
	}
	text, described := strings.CutPrefix(entry, "@")
	value, err := strconv.ParseUint(text, 10, 32)
	if err == nil && described {
		value, err = word(value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if value > maxOffset {
		return fmt.Errorf("%s: %w: %d", field, errLayout, value)
	}
	l.offsets[field] = int64(value)
	return nil
}

// hasField reports whether this version has a field.
func (l *layout) hasField(field string) bool { _, ok := l.offsets[field]; return ok }

// offsetOf returns the offset of a field.
func (l *layout) offsetOf(field string) int64 { return l.offsets[field] }

// listFields returns the fields that lead from a thread state to its first frame.
func (l *layout) listFields() []string {
	if l.hasField("thread.cframe") {
		return []string{"thread.cframe", "thread.frame"}
	}
	return []string{"thread.frame"}
}
