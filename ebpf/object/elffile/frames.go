package elffile

import (
	"debug/elf"
	"errors"
	"fmt"
)

// OpenDebugFrame finds .debug_frame, see OpenSection.
func (f *File) OpenDebugFrame() (*SectionReader, error) { return f.OpenSection(".debug_frame") }

// HasDebugFrame reports whether the file has .debug_frame, compressed or not.
func (f *File) HasDebugFrame() bool {
	return f.HasSection(".debug_frame") || f.HasSection(".zdebug_frame")
}

// DebugFrame reads .debug_frame, see Section.
func (f *File) DebugFrame() (*Section, error) { return loaded(f.OpenDebugFrame()) }

// OpenEHFrameHdr finds .eh_frame_hdr. In a file without sections it uses PT_GNU_EH_FRAME.
func (f *File) OpenEHFrameHdr() (*SectionReader, error) {
	const name = ".eh_frame_hdr"
	s, err := f.OpenSection(name)
	if !errors.Is(err, ErrNoSection) {
		return s, err
	}
	for _, p := range f.elf.Progs {
		if p.Type != elf.PT_GNU_EH_FRAME || p.Filesz == 0 {
			continue
		}
		if f.debugOnly(p.Vaddr) {
			break
		}
		return f.openRange(name, p.Vaddr, p.Off, p.Filesz)
	}
	return nil, fmt.Errorf("section %s: %w", name, ErrNoSection)
}

// EHFrameHdr reads .eh_frame_hdr, see OpenEHFrameHdr.
func (f *File) EHFrameHdr() (*Section, error) { return loaded(f.OpenEHFrameHdr()) }

// debugOnly reports whether vaddr is in a section without bytes in the file. objcopy
// --only-keep-debug leaves the bytes out and does not adapt the program headers.
func (f *File) debugOnly(vaddr uint64) bool {
	for _, s := range f.elf.Sections {
		if s.Type == elf.SHT_NOBITS && vaddr >= s.Addr && vaddr-s.Addr < s.Size {
			return true
		}
	}
	return false
}

// OpenEHFrame finds .eh_frame. In a file without sections it follows eh_frame_ptr of .eh_frame_hdr.
// The end of the section is then unknown, and Size extends to the end of the segment; the section's
// zero terminator marks its end.
func (f *File) OpenEHFrame() (*SectionReader, error) {
	const name = ".eh_frame"
	s, err := f.OpenSection(name)
	if !errors.Is(err, ErrNoSection) {
		return s, err
	}
	hdr, err := f.OpenEHFrameHdr()
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", name, ErrNoSection)
	}
	addr, err := f.ehFramePtr(hdr)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", name, err)
	}
	for _, p := range f.elf.Progs {
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz {
			continue
		}
		skip := addr - p.Vaddr
		return f.openRange(name, addr, p.Off+skip, p.Filesz-skip)
	}
	return nil, fmt.Errorf("section %s: address %#x is in no segment: %w", name, addr, ErrNoSection)
}

// EHFrame reads .eh_frame, see OpenEHFrame.
func (f *File) EHFrame() (*Section, error) { return loaded(f.OpenEHFrame()) }

// Pointer encodings of .eh_frame_hdr (LSB, "DWARF Exception Header Encoding").
const (
	encAbs      = 0x00
	encUdata2   = 0x02
	encUdata4   = 0x03
	encUdata8   = 0x04
	encSdata2   = 0x0a
	encSdata4   = 0x0b
	encSdata8   = 0x0c
	encPCRel    = 0x10
	encDataRel  = 0x30
	encFormMask = 0x0f
	encBaseMask = 0x70
)

// ehFramePtr decodes the address of .eh_frame in an .eh_frame_hdr: version 1,
// three encodings, then the pointer.
func (f *File) ehFramePtr(hdr *SectionReader) (uint64, error) {
	const ptrAt = 4
	b := make([]byte, ptrAt+8)
	if err := readFullAt(hdr.Data, b, 0); err != nil {
		return 0, fmt.Errorf(".eh_frame_hdr: %w", err)
	}
	if b[0] != 1 {
		return 0, fmt.Errorf(".eh_frame_hdr: version %d", b[0])
	}
	bo, enc, v := f.elf.ByteOrder, b[1], uint64(0)
	switch enc & encFormMask {
	case encAbs:
		if v = bo.Uint64(b[ptrAt:]); f.elf.Class == elf.ELFCLASS32 {
			v = uint64(bo.Uint32(b[ptrAt:]))
		}
	case encUdata2:
		v = uint64(bo.Uint16(b[ptrAt:]))
	case encSdata2:
		v = uint64(int16(bo.Uint16(b[ptrAt:])))
	case encUdata4:
		v = uint64(bo.Uint32(b[ptrAt:]))
	case encSdata4:
		v = uint64(int32(bo.Uint32(b[ptrAt:])))
	case encUdata8, encSdata8:
		v = bo.Uint64(b[ptrAt:])
	default:
		return 0, fmt.Errorf(".eh_frame_hdr: unknown pointer encoding %#x", enc)
	}
	switch enc & encBaseMask {
	case encAbs:
	case encPCRel:
		v += hdr.Addr + ptrAt
	case encDataRel:
		v += hdr.Addr
	default:
		return 0, fmt.Errorf(".eh_frame_hdr: unknown pointer encoding %#x", enc)
	}
	return v, nil
}
