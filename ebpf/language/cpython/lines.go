package cpython

import (
	"slices"

	"github.com/headwater/headwater/ebpf/language"
)

// notStarted is the ip of a function that has not executed its first instruction. All other ips are the offset of an
// instruction in bytes.
const notStarted = 1<<64 - 1

// lineTable converts the line table of CPython 3.minor to the lines of a function.
func lineTable(minor int, table []byte, first int) []byte {
	switch {
	case minor <= 9:
		return linesByPairs(table, first)
	case minor == 10:
		return linesByRanges(table, first)
	}
	return linesByLocations(table, first)
}

// linesByPairs reads co_lnotab: pairs of an unsigned address increment and a signed line increment
// (Objects/lnotab_notes.txt of CPython 3.9).
func linesByPairs(table []byte, line int) []byte {
	out := language.AppendLine(nil, 0, line)
	at := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		at += uint64(table[0])
		line += int(int8(table[1]))
		out = language.AppendLine(out, at, line)
	}
	return out
}

// linesByRanges reads co_linetable of 3.10: pairs of the length of a range and the signed increment of its line; -128
// means that the range has no line (PEP 626).
func linesByRanges(table []byte, line int) (out []byte) {
	const none = -128
	at := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		if delta := int(int8(table[1])); delta == none {
			out = language.AppendLine(out, at, 0)
		} else {
			line += delta
			out = language.AppendLine(out, at, line)
		}
		at += uint64(table[0])
	}
	return language.AppendLine(out, at, 0)
}

// linesByLocations reads co_linetable of 3.11 and later (Objects/locations.md, InternalDocs/code_objects.md): an entry
// starts with a byte with its highest bit set, a code of four bits, and a length of three bits, in instructions less
// one.
func linesByLocations(table []byte, line int) (out []byte) {
	const instruction = 2
	out = make([]byte, 0, min(4*len(table)+8, language.MaxTable)) // an entry of two bytes becomes eight bytes
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
			out = language.AppendLine(out, at, line)
		} else {
			out = language.AppendLine(out, at, 0)
		}
		at += instruction * (uint64(head&7) + 1)
		table = table[size:]
	}
	return slices.Clone(language.AppendLine(out, at, 0))
}

// codeBytes returns the size of a function's instructions in bytes, from its line table, which covers all instructions
// since 3.11; 0 for earlier versions.
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

// lineDelta returns the line increment of an entry with a code, and whether the entry has a line.
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

// signedVarint reads a number in groups of six bits, the lowest first; bit 6 of a byte says that another group follows.
// The lowest bit of the number is its sign.
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
