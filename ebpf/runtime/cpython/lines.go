package cpython

// Line tables of code objects. ip is the offset of an instruction in bytes; the answer is
// 0 where a table has no line. Each call reads the table once.

// notStarted is the ip of a function whose first instruction has not been executed.
const notStarted = 1<<64 - 1

// lineOf returns the line at ip by the table of CPython 3.minor.
func lineOf(minor int, table []byte, first int, ip uint64) int {
	if ip == notStarted {
		return first
	}
	line := 0
	switch {
	case minor <= 9:
		line = lineByPairs(table, first, ip)
	case minor == 10:
		line = lineByRanges(table, first, ip)
	default:
		line = lineByLocations(table, first, ip)
	}
	return max(line, 0)
}

// lineByPairs reads co_lnotab: pairs of an increment of the address, unsigned, and one of
// the line, signed (Objects/lnotab_notes.txt of CPython 3.9).
func lineByPairs(table []byte, line int, ip uint64) int {
	at := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		if at += uint64(table[0]); at > ip {
			break
		}
		line += int(int8(table[1]))
	}
	return line
}

// lineByRanges reads co_linetable of 3.10: pairs of the length of a range and the increment
// of its line, signed, of which -128 says that the range has none (PEP 626).
func lineByRanges(table []byte, line int, ip uint64) int {
	const none = -128
	end := uint64(0)
	for ; len(table) >= 2; table = table[2:] {
		end += uint64(table[0])
		delta := int(int8(table[1]))
		if delta != none {
			line += delta
		}
		if ip < end {
			if delta == none {
				return 0
			}
			return line
		}
	}
	return 0
}

// lineByLocations reads co_linetable of 3.11 and later (Objects/locations.md, InternalDocs/
// code_objects.md): entries that begin with a byte that has its highest bit set, then a
// code of four bits and a length of three, in instructions less one.
func lineByLocations(table []byte, line int, ip uint64) int {
	const instruction = 2
	end := uint64(0)
	for len(table) > 0 {
		head := table[0]
		size := 1
		for size < len(table) && table[size]&0x80 == 0 {
			size++
		}
		delta, has := lineDelta(head>>3&15, table[1:size])
		line += delta
		end += instruction * (uint64(head&7) + 1)
		if ip < end {
			if !has {
				return 0
			}
			return line
		}
		table = table[size:]
	}
	return 0
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
