package codeflow

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// entryCode is the state of following the code where the kernel starts a program or a thread.
type entryCode struct {
	machine elf.Machine
	others  map[uint64]bool // functions that the code calls; the code ends where one starts
	once    bool            // calls may not return, so the code after them is not followed
	calls   x86.SystemCalls
	before  uint32 // previous instruction (arm64)
}

// Entry follows the code where the kernel starts a program or a thread, and returns the ranges of
// that code, in order. This code has no caller. bounds is the surrounding code that may belong to
// it.
//
// A function that the code calls may not return, and then another function may follow the call. If
// the code reaches a return, only the code up to the first call on each path counts, and Entry
// returns nil if a path reaches a return without a call.
func Entry(image Image, machine elf.Machine, entry uint64, bounds [2]uint64) (ranges [][2]uint64) {
	if entry < bounds[0] || entry >= bounds[1] {
		return nil
	}
	code := &entryCode{machine: machine, others: map[uint64]bool{}}
	for range 3 { // the first pass finds others, the second finds returns
		w, err := newWalk(image, bounds[0], bounds[1], Options{Machine: machine})
		if err != nil {
			return nil
		}
		w.entry = code
		w.todo = append(w.todo, entry)
		failed := w.followPaths() != nil
		switch {
		case code.learn(w.function.Calls):
		case !failed && !w.returns():
			return w.ranges()
		case code.once:
			return nil
		default:
			code.once = true
		}
	}
	return nil
}

// learn adds functions that the code calls, and reports whether there are new ones.
func (c *entryCode) learn(calls []uint64) (news bool) {
	for _, to := range calls {
		news = news || !c.others[to]
		c.others[to] = true
	}
	return news
}

// begin resets the state before a new path.
func (c *entryCode) begin() { c.calls, c.before = x86.SystemCalls{}, 0 }

// endsEntry reports whether the code ends after an instruction with the given bytes: the program ends
// there, or another function starts.
func (c *entryCode) endsEntry(code []byte, s *step) bool {
	return c.others[s.Addr+uint64(s.Length)] || c.once && (s.calls != 0 || s.callsBySlot) || c.exits(code)
}

// exits reports whether an instruction is a system call that ends the thread or the process.
func (c *entryCode) exits(code []byte) bool {
	if c.machine != elf.EM_AARCH64 {
		in, ok := x86.Decode(code)
		return ok && c.calls.Exits(&in)
	}
	const svc, exit, exitGroup = 0xd4000001, 0xd2800ba8, 0xd2800bc8 // svc #0; mov x8,#93; mov x8,#94
	before := c.before | 1<<31                                      // 32-bit or 64-bit mov
	c.before = binary.LittleEndian.Uint32(code)
	return c.before == svc && (before == exit || before == exitGroup)
}

// returns reports whether the followed code contains a return.
func (w *walk) returns() bool {
	return slices.ContainsFunc(w.function.Instructions, func(in Instruction) bool { return in.Kind == Return })
}

// ranges returns the ranges of the followed code.
func (w *walk) ranges() (ranges [][2]uint64) {
	all := w.function.Instructions
	slices.SortFunc(all, func(a, b Instruction) int { return int(int64(a.Addr - b.Addr)) })
	for _, in := range all {
		end := in.Addr + uint64(in.Length)
		if n := len(ranges); n > 0 && ranges[n-1][1] >= in.Addr {
			ranges[n-1][1] = max(ranges[n-1][1], end)
			continue
		}
		ranges = append(ranges, [2]uint64{in.Addr, end})
	}
	return ranges
}
