package v8

import "github.com/headwater/headwater/ebpf/unwind/x86"

// maxDetail bounds the bytes of code that are decoded to find the detail of a table of positions.
const maxDetail = 4 << 10

// detailed reports whether a table has positions of all instructions, an option of V8 that node uses. Otherwise it has
// positions of calls only, so that there is a call between each entry and the next one.
func (m *reader) detailed(c code, table []byte) bool {
	instructions := make([]byte, min(c.high-c.low, maxDetail))
	if m.readBytes(c.low, instructions); m.err != nil {
		return false
	}
	found, last := false, absent
	m.l.positions(table, func(p position) bool {
		found = found || last >= 0 && p.at > last && withoutCall(instructions, last, p.at)
		last = p.at
		return !found && p.at < len(instructions)
	})
	return found
}

// withoutCall reports whether all instructions are decoded and none is a call.
func withoutCall(code []byte, from, to int) bool {
	for from < to {
		if from >= len(code) {
			return false
		}
		in, ok := x86.Decode(code[from:])
		if call := in.Opcode == 0xe8 || in.Opcode == 0xff && in.Reg&7 == 2; !ok || call && in.Table == 0 && !in.Vector {
			return false
		}
		from += in.Length
	}
	return from == to
}
