package v8

import "github.com/headwater/headwater/ebpf/x86"

// maxDetail bounds the bytes of code that are looked at to see how detailed a table of positions is.
const maxDetail = 4 << 10

// detailed reports whether a table has positions of all instructions, as programs ask V8 for; node does. If not, it has
// those of calls only, so each entry is followed by a call before the next one.
func (m *reader) detailed(c code, table []byte) bool {
	instructions := make([]byte, min(c.high-c.low, maxDetail))
	if m.read(c.low, instructions); m.err != nil {
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

// withoutCall reports whether instructions are known to be others than calls.
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
