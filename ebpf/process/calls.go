package process

import (
	"debug/elf"
	"encoding/binary"
	"io"

	"github.com/headwater/headwater/ebpf/codeflow"
	"github.com/headwater/headwater/ebpf/unwind"
)

// maxCallee is the most code of a function that is followed to see whether an instruction is in it.
const maxCallee = 16 << 10

// MayCall reports whether the call before the address ra may have called the function that the address pc is in. It is
// false only where the code shows that: the call is a direct one, and what it calls never goes to pc without a call.
// Addresses are those of frames: of the process, or ELF virtual addresses of an executable.
func (v *View) MayCall(raExe unwind.ExeID, ra uint64, pcExe unwind.ExeID, pc uint64) bool {
	if v.Machine() != elf.EM_X86_64 || raExe != pcExe {
		return true
	}
	image := v.codeOf(raExe)
	if image == nil {
		return true
	}
	var code [8]byte
	if image.ReadVaddr(code[:], ra-8) != nil || code[3] != 0xe8 || code[6] == 0xff || code[5] == 0xff {
		return true // not a direct call alone
	}
	callee := ra + uint64(int64(int32(binary.LittleEndian.Uint32(code[4:]))))
	size := uint64(maxCallee)
	for ; size > 0 && image.ReadVaddr(make([]byte, size), callee) != nil; size /= 4 {
		continue // it ends before
	}
	f, err := codeflow.Follow(image, callee, callee+size, codeflow.Options{Machine: v.Machine()})
	if err != nil || f.Unfollowed != 0 {
		return true
	}
	for _, in := range f.Instructions {
		if in.Kind == codeflow.Leave || in.Kind == codeflow.Slot || pc >= in.Addr && pc-in.Addr < uint64(in.Length) {
			return true
		}
	}
	return false
}

// codeOf returns the code of an executable, or with 0 that of the process in no file; nil if it is not to be had.
func (v *View) codeOf(id unwind.ExeID) codeflow.Image {
	if id == 0 {
		return processCode{v.tracker.memory(v.pid)}
	}
	for _, m := range v.mappings {
		if m.exe != nil && m.exe.ID == id {
			if file := m.exe.image.Load().elf; file != nil && !m.remote {
				return file
			}
		}
	}
	return nil
}

// processCode is the code of a process by its addresses. It is a codeflow.Image.
type processCode struct{ memory io.ReaderAt }

func (c processCode) ReadVaddr(p []byte, vaddr uint64) error {
	_, err := c.memory.ReadAt(p, int64(vaddr))
	return err
}
