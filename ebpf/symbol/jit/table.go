// Package jit names code of just-in-time compilers from the files that they write for perf: maps, /tmp/perf-PID.map,
// and jitdump files, jit-PID.dump. Both grow while the process runs, so each read continues at the end of the last one.
package jit

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Frame is the function at an address.
type Frame struct {
	Function string // the compiler's name for it, valid UTF-8
	File     string // source file, "" if unknown
	Line     int    // 0 if unknown
}

// maxName is the maximum length of a name that is kept. The budget limits the total; offsets have 32 bits.
const (
	maxName  = 4 << 10
	maxCount = 1<<32 - 1
)

// function is the address range of one function's code.
type function struct {
	start uint64
	size  uint32
	name  uint32 // offset in names
	order uint32 // position in the order of writing; later functions replace earlier ones
	lines uint32 // index of its first line
	count uint32 // number of its lines
}

// line is a source position, from an address on to the next line of the function.
type line struct {
	addr uint64
	line uint32
	file uint32 // offset in names
}

// table is the functions of one process.
type table struct {
	share     share
	functions []function
	sorted    int    // number of functions that are sorted by start
	longest   uint64 // size of the longest function
	lines     []line
	names     []byte            // each followed by a NUL
	files     map[string]uint32 // offsets in names of source files
}

// mapEntry is the approximate memory of a map entry.
const mapEntry = 64

// addFunction records a function with count lines starting at index lines, unless there is no room. A later function
// replaces earlier ones at the same addresses. It returns the offset of the name.
func (t *table) addFunction(start, size uint64, name []byte, lines, count int) (at uint32, ok bool) {
	if size == 0 || start+size < start || len(name) == 0 {
		return 0, false
	}
	if at, ok = t.addName(name); !ok {
		t.share.of.dropped.Add(1)
		return 0, false
	}
	return at, t.addNamed(start, size, at, lines, count)
}

// addNamed is add for a name that was already added.
func (t *table) addNamed(start, size uint64, at uint32, lines, count int) (ok bool) {
	if size == 0 || start+size < start {
		return false
	}
	if t.functions, ok = roomFor(&t.share, t.functions, 1); !ok || len(t.functions) >= maxCount {
		t.share.of.dropped.Add(1)
		return false
	}
	size = min(size, maxCount)
	t.longest = max(t.longest, size)
	t.functions = append(t.functions, function{start: start, size: uint32(size), name: at,
		order: uint32(len(t.functions)), lines: uint32(lines), count: uint32(count)})
	return true
}

func (t *table) addName(name []byte) (at uint32, ok bool) {
	name = name[:min(len(name), maxName)]
	if !utf8.Valid(name) {
		name = []byte(strings.ToValidUTF8(string(name), "\uFFFD"))
	}
	if t.names, ok = roomFor(&t.share, t.names, len(name)+1); !ok || len(t.names)+len(name) >= maxCount {
		return 0, false
	}
	at = uint32(len(t.names))
	t.names = append(append(t.names, name...), 0)
	return at, true
}

// addLine records a line of a function that is added later.
func (t *table) addLine(addr uint64, number uint32, file []byte) bool {
	at, ok := t.files[string(file)]
	if !ok {
		if !t.share.takeBytes(int64(mapEntry + len(file))) {
			return false
		}
		if at, ok = t.addName(file); !ok {
			return false
		}
		if t.files == nil {
			t.files = map[string]uint32{}
		}
		t.files[string(file)] = at
	}
	if t.lines, ok = roomFor(&t.share, t.lines, 1); !ok || len(t.lines) >= maxCount {
		return false
	}
	t.lines = append(t.lines, line{addr: addr, line: number, file: at})
	return true
}

// clear drops all data and frees the memory.
func (t *table) clear() {
	t.share.freeBytes()
	*t = table{share: t.share}
}

func (t *table) nameAt(at uint32) string {
	rest := t.names[at:]
	return string(rest[:slices.Index(rest, 0)])
}

// maxSteps bounds the functions that a lookup checks.
const maxSteps = 4096

// findFrame returns the function at addr, the latest if there are several.
func (t *table) findFrame(addr uint64) (Frame, bool) {
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
	frame := Frame{Function: t.nameAt(f.name)}
	for _, l := range t.lines[f.lines:][:f.count] {
		if l.addr > addr {
			break
		}
		frame.File, frame.Line = t.nameAt(l.file), int(l.line)
	}
	return frame, true
}
