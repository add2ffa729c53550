package cpython

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// maxLoop bounds the code of the evaluation loop: it has some 60 KiB, or some 200 KiB without optimization.
const maxLoop = 4 << 20

// loopRanges returns the code of the evaluation loop: the range of its symbol, and its cold part, which the compiler
// puts elsewhere and for which a stripped file has no symbol.
func loopRanges(file *elffile.File, loop elffile.Symbol) []language.Range {
	all := []language.Range{{Low: loop.Value, High: loop.Value + loop.Size}}
	if loop.Size == 0 || loop.Size > maxLoop {
		return all
	}
	code := make([]byte, loop.Size)
	if err := file.ReadVaddr(code, loop.Value); err != nil {
		return all
	}
	table, err := unwindtable.New(file)
	if err != nil {
		return all
	}
	var targets []uint64
	switch file.Machine() {
	case elf.EM_X86_64:
		targets = jumpsX86(code, loop.Value)
	case elf.EM_AARCH64:
		targets = jumpsArm64(code, loop.Value)
	}
	slices.Sort(targets)
	for _, target := range slices.Compact(targets) {
		if within(all, target) {
			continue
		}
		if cold, ok := coldPart(table, target); ok {
			all = append(all, cold)
		}
	}
	return all
}

// enteringRanges returns the code that the loop runs before its first frame is in the frame list: from the start of the
// loop to where it has stored a new list at offset head of the thread state, and has written that list and its first
// frame. Until then the list may start with stale data from the stack.
func enteringRanges(file *elffile.File, loop elffile.Symbol, head int64) []language.Range {
	const most, store = 512, 0x89 // mov of a register to memory
	code := make([]byte, min(loop.Size, most))
	if file.Machine() != elf.EM_X86_64 || file.ReadVaddr(code, loop.Value) != nil {
		return nil
	}
	var thread byte // the register with the thread state
	written := 0    // offset after which the list is written
	for at := 0; at < len(code); {
		in, ok := x86.Decode(code[at:])
		if !ok {
			break
		}
		at += in.Length
		switch kind := x86.StackEffect(&in).Kind; {
		case in.Table == 0 && in.Opcode == store && in.Mod != 3 && in.Wide && in.Disp == head && in.Base != x86.RSP:
			thread, written = in.Base, at
		case written == 0:
		case kind == x86.Branch || kind == x86.Jump || kind == x86.JumpAnywhere || kind == x86.Call:
			return []language.Range{{Low: loop.Value, High: loop.Value + uint64(written)}}
		case in.Mod != 3 && in.Base != thread: // a possible write to the list or the frame
			written = at
		}
	}
	return nil
}

func within(ranges []language.Range, addr uint64) bool {
	return slices.ContainsFunc(ranges, func(r language.Range) bool { return r.Low <= addr && addr < r.High })
}

// coldPart returns the code around a jump target of the loop, and whether it is a part of the loop. Such a part starts
// with a complete frame, while a separate function, reached by a tail call, starts without a frame.
func coldPart(table *unwindtable.Table, addr uint64) (language.Range, bool) {
	entry, ok, err := table.Entry(addr)
	if err != nil || !ok {
		return language.Range{}, false
	}
	first, ok, err := table.CallFrame(entry.Start)
	if err != nil || !ok || first.Row.CFA.Kind != ehframe.CFARegister {
		return language.Range{}, false
	}
	const pushed = 8 // the return address, on x86-64; 0 on arm64
	return language.Range{Low: entry.Start, High: entry.End}, first.Row.CFA.Offset > pushed
}

// jumpsX86 returns the targets of direct jumps that leave the code. It skips bytes that do not decode.
func jumpsX86(code []byte, start uint64) (targets []uint64) {
	for at := 0; at < len(code); {
		in, ok := x86.Decode(code[at:])
		if !ok {
			at++
			continue
		}
		effect := x86.StackEffect(&in)
		if effect.Kind == x86.Jump || effect.Kind == x86.Branch {
			target := start + uint64(at) + uint64(in.Length) + uint64(in.Imm)
			if target < start || target >= start+uint64(len(code)) {
				targets = append(targets, target)
			}
		}
		at += in.Length
	}
	return targets
}

// jumpsArm64 is jumpsX86 for AArch64: b and b.cond, cbz and cbnz, tbz and tbnz (Arm
// Architecture Reference Manual, C4.1).
func jumpsArm64(code []byte, start uint64) (targets []uint64) {
	for at := 0; at+4 <= len(code); at += 4 {
		in := binary.LittleEndian.Uint32(code[at:])
		var distance int64
		switch {
		case in>>26 == 0b000101: // b
			distance = int64(int32(in<<6)) >> 6
		case in>>24 == 0b01010100, in>>25&0b111111 == 0b011010: // b.cond; cbz, cbnz
			distance = int64(int32(in<<8)) >> 13
		case in>>25&0b111111 == 0b011011: // tbz, tbnz
			distance = int64(int32(in<<13)) >> 18
		default:
			continue
		}
		target := start + uint64(at) + uint64(4*distance)
		if target < start || target >= start+uint64(len(code)) {
			targets = append(targets, target)
		}
	}
	return targets
}
