package v8

// position is an entry of a source position table (V8, src/codegen/source-position-table.cc): the source position of
// the code from an offset on.
type position struct {
	at      int // offset in the code, or entry
	source  int // character in the script, absent if unknown
	inlined int // index of the inlined call that it belongs to, absent if none
}

// maxTable bounds the size of a table of positions in bytes.
const maxTable = 1 << 20

// entry is the offset in bytecode of a function's entry, before the first instruction (kFunctionEntryBytecodeOffset).
// Tables start there, also for machine code.
const entry = -1

// positions calls yield for the entries of a table, in code order, until yield returns false.
func (l *Layout) positions(table []byte, yield func(position) bool) {
	at, raw := entry, int64(0)
	for len(table) > 0 {
		code, rest, ok := l.codeDelta(table)
		if !ok {
			return
		}
		var source int64
		if source, table, ok = signed(rest); !ok {
			return
		}
		at, raw = at+int(code), raw+source
		p := sourcePosition(uint64(raw))
		if p.at = at; !yield(p) {
			return
		}
	}
}

// codeDelta reads the distance of an entry's code from the previous entry. Other data of the entry, such as whether it
// is a statement, is in the sign or in some low bits.
func (l *Layout) codeDelta(b []byte) (delta int64, rest []byte, ok bool) {
	if l.PositionFlags != absent {
		bits, rest, ok := unsigned(b)
		return int64(bits >> l.PositionFlags), rest, ok
	}
	if delta, rest, ok = signed(b); delta < 0 {
		delta = -(delta + 1)
	}
	return delta, rest, ok
}

// sourcePosition decodes a position (V8, src/codegen/source-position.h): one bit for a position that is not in a
// script, 30 bits for the character plus 1, and 16 bits for the index of the inlined call plus 1.
func sourcePosition(raw uint64) position {
	p := position{source: int(raw>>1&(1<<30-1)) - 1, inlined: int(raw>>31&(1<<16-1)) - 1}
	if raw&1 != 0 {
		p.source = absent
	}
	return p
}

// signed reads a signed number: an unsigned number whose lowest bit is the sign.
func signed(b []byte) (v int64, rest []byte, ok bool) {
	bits, rest, ok := unsigned(b)
	return int64(bits>>1) ^ -int64(bits&1), rest, ok
}

// unsigned reads a number of 7 bits per byte, the lowest first.
func unsigned(b []byte) (bits uint64, rest []byte, ok bool) {
	for i, c := range b {
		if i == 10 {
			break
		}
		bits |= uint64(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return bits, b[i+1:], true
		}
	}
	return 0, nil, false
}
