package engine

import (
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
)

// Slot is a native frame that may stand for a frame of a language.
type Slot struct {
	Number int      // of the native frame
	FP     uint64   // its frame pointer
	Words  []uint64 // of the layout, set by ReadSlots
	Cookie uint64   // of the code object, set by ReadSlots
}

// ReadSlots reads the words of native frames that the kernel's walk did not reach: the first block of each frame from a
// copy of the stack, the other blocks from the process as it is now. It returns the slots that stand for a frame.
func (i *Interpreter) ReadSlots(pid uint32, stack chain.Memory, slots []Slot) []Slot {
	layout := i.frames.Spec().Layout()
	memory := i.engine.reads.memory(pid)
	var frames []slotMemory
	for _, slot := range slots[:min(len(slots), MaxReads)] {
		first := &layout.Blocks[0]
		m := slotMemory{
			slot: slot, first: slot.FP + uint64(first.Offset), block: make([]byte, first.Bytes), others: memory,
		}
		if slot.FP != 0 && stack.Read(m.first, m.block) {
			frames = append(frames, m)
		}
	}
	if len(frames) == 0 || memory.hasFewReads() {
		return nil
	}
	var read []Slot
	done := i.engine.readWithin(memory, "frames", func() bool {
		for _, m := range frames {
			m.slot.Words = make([]uint64, len(layout.Words))
			m.slot.Cookie = chain.ReadFrame(layout, m.slot.FP, m, m.slot.Words)
			if m.slot.Cookie != 0 {
				read = append(read, m.slot)
			}
		}
		return true
	})
	if !done {
		return nil
	}
	return read
}

// LeadsToCode reports whether a frame itself holds the address of its code object.
func (i *Interpreter) LeadsToCode() bool {
	l := i.frames.Spec().Layout()
	return l.Code >= 0 && l.Words[l.Code].Block == 0
}

// KnownAt reports whether the code object that is at an address now was already seen there before an earlier time.
func (i *Interpreter) KnownAt(pid uint32, c CodeAt, when time.Time) bool {
	return i.functions.knownAt(codeKey{pid, c.Address, c.Cookie}, when)
}

// slotMemory is the memory of a process with the first block of a frame as it was in the sample. It implements
// chain.Memory.
type slotMemory struct {
	slot   Slot
	first  uint64
	block  []byte
	others language.Memory
}

// Read implements chain.Memory.
func (m slotMemory) Read(addr uint64, b []byte) bool {
	if addr == m.first && len(b) == len(m.block) {
		copy(b, m.block)
		return true
	}
	_, err := m.others.ReadAt(b, int64(addr))
	return err == nil
}
