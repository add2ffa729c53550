package cpython

import (
	"slices"

	"github.com/headwater/headwater/ebpf/runtime"
)

// notStarted is the ip of a function whose first instruction has not been executed: else it is
// the offset of an instruction in bytes.
const notStarted = 1<<64 - 1

// lineTable returns the lines of a function by the line table that CPython 3.minor has.
func lineTable(minor int, table []byte, first int) []byte {
	switch {
	case minor <= 9:
		return linesByPairs(table, first)
	case minor == 10:
		return linesByRanges(table, first)
	}
	return linesByLocations(table, first)
}

// linesByPairs reads co_lnotab: pairs of an increment of the address, unsigned, and one of
// the line, signed (Objects/lnotab_notes.txt of CPython 3.9).
func linesByPairs(table []byte, line int) []byte {
	out := runtime.AppendLine(nil, 0, line)
	at := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		at += uint64(table[0])
		line += int(int8(table[1]))
		out = runtime.AppendLine(out, at, line)
	}
	return out
}

// linesByRanges reads co_linetable of 3.10: pairs of the length of a range and the increment
// of its line, signed, of which -128 says that the range has none (PEP 626).
func linesByRanges(table []byte, line int) (out []byte) {
	const none = -128
	at := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		if delta := int(int8(table[1])); delta == none {
			out = runtime.AppendLine(out, at, 0)
		} else {
			line += delta
			out = runtime.AppendLine(out, at, line)
		}
		at += uint64(table[0])
	}
	return runtime.AppendLine(out, at, 0)
}

// linesByLocations reads co_linetable of 3.11 and later (Objects/locations.md, InternalDocs/
// code_objects.md): entries that begin with a byte that has its highest bit set, then a
// code of four bits and a length of three, in instructions less one.
func linesByLocations(table []byte, line int) (out []byte) {
	const instruction = 2
	out = make([]byte, 0, min(4*len(table)+8, runtime.MaxTable)) // an entry of two bytes becomes eight
	at := uint64(0)
	for len(table) > 0 {
		head := table[0]
		size := 1
		for size < len(table) && table[size]&0x80 == 0 {
			size++
		}
		delta, has := lineDelta(head>>3&15, table[1:size])
		line += delta
		if has {
			out = runtime.AppendLine(out, at, line)
		} else {
			out = runtime.AppendLine(out, at, 0)
		}
		at += instruction * (uint64(head&7) + 1)
		table = table[size:]
	}
	return slices.Clone(runtime.AppendLine(out, at, 0))
}

// codeBytes returns the bytes of a function's instructions by its line table, which is about all of them since 3.11; 0
// for other versions.
func codeBytes(minor int, table []byte) (n uint64) {
	const instruction = 2
	if minor <= 10 {
		return 0
	}
	for _, b := range table {
		if b&0x80 != 0 {
			n += instruction * (uint64(b&7) + 1)
		}
	}
	return n
}

// lineDelta returns by how much an entry of that code moves the line, and whether the
// entry has a line.
func lineDelta(code byte, rest []byte) (delta int, has bool) {
	switch code {
	case 15: // no location
		return 0, false
	case 13, 14: // no columns; long form
		return signedVarint(rest), true
	case 11, 12: // one line form
		return int(code) - 10, true
	}
	return 0, true
}

// signedVarint reads a number of groups of six bits, the lowest first, of which bit 6 says
// that another one follows. The lowest bit of the number is its sign.
func signedVarint(b []byte) int {
	value := uint64(0)
	for i := 0; i < len(b) && i < 6; i++ {
		value |= uint64(b[i]&63) << (6 * i)
		if b[i]&64 == 0 {
			break
		}
	}
	if value&1 != 0 {
		return -int(value >> 1)
	}
	return int(value >> 1)
}
