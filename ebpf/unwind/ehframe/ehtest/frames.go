package ehtest

import (
	"encoding/binary"
	"slices"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// Pointer encodings that Frames writes.
const (
	pcrelSdata4   = 0x1b
	datarelSdata4 = 0x3b
	udata4        = 0x03
)

// CIE describes a common information entry. Zero factors and a zero return register mean the x86-64
// values.
type CIE struct {
	Augmentation string // R's data is written as pcrel sdata4; other data comes from Data
	Data         Asm    // augmentation data after R's
	CodeAlign    uint64
	DataAlign    int64
	Return       uint64
	Program      Asm
}

// Frames assembles a section of call frame information.
type Frames struct {
	Addr  uint64 // ELF virtual address of the section; 0 with Debug
	Debug bool   // .debug_frame
	Bytes Asm

	fdes []entry // for Header
}

type entry struct{ start, fde uint64 }

// CIE appends an entry and returns its offset.
func (f *Frames) CIE(c CIE) uint64 {
	if c.CodeAlign == 0 {
		c.CodeAlign = 1
	}
	if c.DataAlign == 0 {
		c.DataAlign = -8
	}
	if c.Return == 0 {
		c.Return = 16
	}
	b := Asm{}.Op(1).Str(c.Augmentation).Uleb(c.CodeAlign).Sleb(c.DataAlign).Op(byte(c.Return))
	if c.Augmentation != "" {
		b = b.Block(append(Asm{}.Op(pcrelSdata4), c.Data...))
	}
	id := uint32(0)
	if f.Debug {
		id = 0xffffffff
	}
	return f.Entry(id, append(b, c.Program...))
}

// Entry appends an entry made of an ID and body, and returns its offset.
func (f *Frames) Entry(id uint32, body Asm) uint64 {
	off := uint64(len(f.Bytes))
	for len(body)%4 != 0 {
		body = body.Op(Nop)
	}
	f.Bytes = append(f.Bytes.U32(uint32(4+len(body))).U32(id), body...)
	return off
}

// FDE appends an entry for size bytes of text at start, and returns its offset. The CIE at offset
// cie must have the augmentation zR, or none with Debug.
func (f *Frames) FDE(cie, start, size uint64, program Asm) uint64 {
	off := uint64(len(f.Bytes))
	f.fdes = append(f.fdes, entry{start, off})
	if f.Debug {
		return f.Entry(uint32(cie), append(Asm{}.U64(start).U64(size), program...))
	}
	at := f.Addr + off + 8
	body := Asm{}.U32(uint32(start - at)).U32(uint32(size)).Uleb(0)
	return f.Entry(uint32(off+4-cie), append(body, program...))
}

// Repeat adds the last FDE to Header once more.
func (f *Frames) Repeat() { f.fdes = append(f.fdes, f.fdes[len(f.fdes)-1]) }

// Section returns the assembled section.
func (f *Frames) Section() *ehframe.Section {
	return &ehframe.Section{
		Source: ehframe.Bytes(f.Bytes), Size: uint64(len(f.Bytes)), Addr: f.Addr,
		Order: binary.LittleEndian, AddrSize: 8, Debug: f.Debug,
	}
}

// Header returns the bytes of an .eh_frame_hdr at address addr, in the form that linkers write.
func (f *Frames) Header(addr uint64) Asm {
	fdes := slices.Clone(f.fdes)
	slices.SortStableFunc(fdes, func(a, b entry) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	b := Asm{}.Op(1).Op(pcrelSdata4).Op(udata4).Op(datarelSdata4)
	b = b.U32(uint32(f.Addr - (addr + 4))).U32(uint32(len(fdes)))
	for _, e := range fdes {
		b = b.U32(uint32(e.start - addr)).U32(uint32(f.Addr + e.fde - addr))
	}
	return b
}
