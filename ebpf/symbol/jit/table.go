// Package jit names code that just-in-time compilers made, by what they write for
// perf: maps, /tmp/perf-PID.map, and jitdump files, jit-PID.dump. Both grow while
// the process runs, so they are read on from where they ended last time.
package jit

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Frame is the function at an address.
type Frame struct {
	Function string // as the compiler calls it, valid UTF-8
	File     string // source file, "" if unknown
	Line     int    // 0 if unknown
}

// Limits on what is kept of one process.
const (
	maxFunctions = 1 << 20
	maxNames     = 64 << 20 // bytes
	maxLines     = 1 << 21
	maxName      = 4 << 10 // bytes of one name
)

// function is a range of addresses that holds one function's code, since the
// function before it in the order of writing.
type function struct {
	start uint64
	size  uint32
	name  uint32 // offset in names
	order uint32 // later ones replaced what was there
	lines uint32 // the first of its lines
	count uint32 // of its lines
}

// line is a place in the source, from an address on to the next one of the
// function.
type line struct {
	addr uint64
	line uint32
	file uint32 // offset in names
}

// table is what is known of one process. The zero value is empty.
type table struct {
	functions []function
	sorted    int    // that many of functions are sorted by start
	longest   uint64 // size of the longest function
	lines     []line
	names     []byte            // each followed by a NUL
	files     map[string]uint32 // offsets in names of source files
}

// add records a function, unless the table is full, with count lines from that one
// on. A later function replaces those before at the same addresses. It returns where
// the name is.
func (t *table) add(start, size uint64, name []byte, lines, count int) (at uint32, ok bool) {
	if size == 0 || start+size < start || len(name) == 0 || len(t.functions) >= maxFunctions {
		return 0, false
	}
	if at, ok = t.addName(name); ok {
		t.addNamed(start, size, at, lines, count)
	}
	return at, ok
}

// addNamed is add for a name that is there already.
func (t *table) addNamed(start, size uint64, at uint32, lines, count int) {
	if size == 0 || start+size < start || len(t.functions) >= maxFunctions {
		return
	}
	size = min(size, 1<<32-1)
	t.longest = max(t.longest, size)
	t.functions = append(t.functions, function{start: start, size: uint32(size), name: at, order: uint32(len(t.functions)), lines: uint32(lines), count: uint32(count)})
}

func (t *table) addName(name []byte) (uint32, bool) {
	name = name[:min(len(name), maxName)]
	if len(t.names)+len(name) >= maxNames {
		return 0, false
	}
	at := uint32(len(t.names))
	if utf8.Valid(name) {
		t.names = append(t.names, name...)
	} else {
		t.names = append(t.names, strings.ToValidUTF8(string(name), "\uFFFD")...)
	}
	t.names = append(t.names, 0)
	return at, true
}

// addLine records a line of a function that is added afterwards.
func (t *table) addLine(addr uint64, number uint32, file []byte) bool {
	if len(t.lines) >= maxLines {
		return false
	}
	at, ok := t.files[string(file)]
	if !ok {
		if at, ok = t.addName(file); !ok {
			return false
		}
		if t.files == nil {
			t.files = map[string]uint32{}
		}
		t.files[string(file)] = at
	}
	t.lines = append(t.lines, line{addr: addr, line: number, file: at})
	return true
}

func (t *table) name(at uint32) string {
	rest := t.names[at:]
	return string(rest[:slices.Index(rest, 0)])
}

// maxSteps bounds how many functions a look-up tries.
const maxSteps = 4096

// find returns the function at addr, of several the latest.
func (t *table) find(addr uint64) (Frame, bool) {
	if t.sorted < len(t.functions) {
		slices.SortFunc(t.functions, func(a, b function) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.order, b.order))
		})
		t.sorted = len(t.functions)
	}
	i, _ := slices.BinarySearchFunc(t.functions, addr, func(f function, addr uint64) int {
		if f.start <= addr {
			return -1
		}
		return 1
	})
	best := -1
	for step := 0; i > 0 && step < maxSteps; step++ {
		i--
		f := &t.functions[i]
		if addr-f.start >= t.longest {
			break
		}
		if addr-f.start < uint64(f.size) && (best < 0 || f.order > t.functions[best].order) {
			best = i
		}
	}
	if best < 0 {
		return Frame{}, false
	}
	f := &t.functions[best]
	frame := Frame{Function: t.name(f.name)}
	for _, l := range t.lines[f.lines:][:f.count] {
		if l.addr > addr {
			break
		}
		frame.File, frame.Line = t.name(l.file), int(l.line)
	}
	return frame, true
}
