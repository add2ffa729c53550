package codeflow

import (
	"debug/elf"
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// maxFrames bounds the bytes of .eh_frame that a Finder reads.
const maxFrames = 256 << 20

// Finder follows functions of one ELF file with the help of its call frame information. It must not
// be used concurrently, or after the file is closed.
type Finder struct {
	file    *elffile.File
	reader  *ehframe.Reader // nil if there is no call frame information
	index   ehframe.Index
	frames  uint64 // base address of the offsets in the index
	program ehframe.Program
}

// NewFinder returns a Finder of a file. It ignores an .eh_frame section larger than maxFrames.
func NewFinder(f *elffile.File) (*Finder, error) {
	out := &Finder{file: f}
	reader, err := f.OpenEHFrame()
	if errors.Is(err, elffile.ErrNoSection) || err == nil && (reader == nil || reader.Size > maxFrames) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	frames, err := f.EHFrame()
	if err != nil {
		return nil, err
	}
	header, err := f.EHFrameHdr()
	if err != nil && !errors.Is(err, elffile.ErrNoSection) {
		return nil, err
	}
	out.frames = frames.Addr
	section := out.section(frames)
	out.reader = ehframe.NewReader(section)
	if header != nil {
		if parsed, err := ehframe.ParseHeader(out.section(header)); err == nil {
			out.index = parsed
			return out, nil
		}
	}
	out.index, _ = ehframe.Scan(section)
	return out, nil
}

func (f *Finder) section(s *elffile.Section) *ehframe.Section {
	size := 8
	if f.file.Class() == elf.ELFCLASS32 {
		size = 4
	}
	return &ehframe.Section{
		Source: ehframe.Bytes(s.Data), Size: uint64(len(s.Data)), Addr: s.Addr, Order: f.file.ByteOrder(), AddrSize: size,
	}
}

// Function follows the function that starts at addr. size is the size of its symbol, 0 if unknown;
// then call frame information must contain the end of the function.
func (f *Finder) Function(addr, size uint64) (*Function, error) {
	frame, known := f.frame(addr)
	end := addr + size
	if size == 0 {
		if !known || frame.Start != addr {
			return nil, fmt.Errorf("%#x: neither a symbol nor call frame information says where the function ends", addr)
		}
		end = frame.End
	}
	o := Options{Machine: f.file.Machine(), Part: func(to uint64, conditional bool) (uint64, uint64, bool) {
		return f.partOfFunction(to, conditional, addr, end)
	}}
	if known && frame.Start == addr {
		var err error
		if o.Roots, err = f.landingPads(&frame); err != nil {
			return nil, err
		}
	}
	return Follow(f.file, addr, end, o)
}

// Begins reports whether an entry of the call frame information starts at an address.
func (f *Finder) Begins(addr uint64) bool {
	frame, known := f.frame(addr)
	return known && frame.Start == addr
}

// IsStub reports whether the code at an address is a stub of the procedure linkage table, which
// jumps through a slot.
func (f *Finder) IsStub(addr uint64) bool {
	const longest = 16
	stub, err := Follow(f.file, addr, addr+longest, Options{Machine: f.file.Machine()})
	if err != nil {
		return false
	}
	exits := stub.Exits()
	return len(exits) == 1 && exits[0].Kind == Slot && len(stub.Instructions) <= 3
}

// frame returns the call frame entry of an address.
func (f *Finder) frame(addr uint64) (ehframe.FDE, bool) {
	if f.reader == nil {
		return ehframe.FDE{}, false
	}
	i, err := ehframe.Find(f.index, addr)
	if err != nil || i < 0 {
		return ehframe.FDE{}, false
	}
	_, offset, err := f.index.Entry(i)
	if err != nil {
		return ehframe.FDE{}, false
	}
	fde, err := f.reader.FDE(offset)
	return fde, err == nil && fde.Contains(addr)
}

// partOfFunction returns the range of the code at address to, if that code is a separate part of the function
// [start, end), which jumps there. Compilers put rarely used code elsewhere, with its own call
// frame information.
func (f *Finder) partOfFunction(to uint64, conditional bool, start, end uint64) (from, until uint64, ok bool) {
	fde, known := f.frame(to)
	switch {
	case !known, f.IsStub(to):
		return 0, 0, false
	case fde.Start != to, conditional: // functions are entered at their start, and usually not by a conditional jump
		return fde.Start, fde.End, true
	}
	_ = f.program.Rows(&fde, func(r *ehframe.Row) bool {
		ok = !f.isEntered(r)
		return false
	})
	return fde.Start, fde.End, ok || f.goesBack(&fde, start, end)
}

// goesBack reports whether the code of an entry jumps into the middle of the function [start, end).
func (f *Finder) goesBack(fde *ehframe.FDE, start, end uint64) bool {
	rest, err := Follow(f.file, fde.Start, fde.End, Options{Machine: f.file.Machine()})
	if err != nil {
		return false
	}
	for _, exit := range rest.Exits() {
		if exit.Kind == Leave && exit.To > start && exit.To < end {
			return true
		}
	}
	return false
}

// isEntered reports whether a row is the row of a function's first instruction.
func (f *Finder) isEntered(r *ehframe.Row) bool {
	const rsp, sp = 7, 31 // DWARF numbers
	if r.CFA.Kind != ehframe.CFARegister {
		return false
	}
	if f.file.Machine() == elf.EM_AARCH64 {
		return r.CFA.Reg == sp && r.CFA.Offset == 0
	}
	return r.CFA.Reg == rsp && r.CFA.Offset == 8
}
