package elffile

import (
	"debug/elf"
	"fmt"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// SectionRange returns the ELF virtual addresses [start, end) of a loaded section whose bytes are
// in the file, not compressed.
func (f *File) SectionRange(name string) (start, end uint64, ok bool) {
	s := f.section(name)
	if s == nil || s.Addr == 0 || s.Flags&elf.SHF_COMPRESSED != 0 || s.Addr+s.Size < s.Addr {
		return 0, 0, false
	}
	return s.Addr, s.Addr + s.Size, true
}

// HasSections reports whether the file has a usable section table.
func (f *File) HasSections() bool { return len(f.elf.Sections) > 0 }

// LoadRanges returns the ranges [start, end) of ELF virtual addresses that
// PT_LOAD segments fill from the file, in the file's order.
func (f *File) LoadRanges() [][2]uint64 {
	var ranges [][2]uint64
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_LOAD && p.Filesz > 0 && p.Vaddr+p.Filesz > p.Vaddr {
			ranges = append(ranges, [2]uint64{p.Vaddr, p.Vaddr + p.Filesz})
		}
	}
	return ranges
}

// ReadVaddr fills p with the bytes of the file at the ELF virtual address vaddr, without
// relocations applied. The error is ErrTruncated unless one PT_LOAD segment holds all bytes.
func (f *File) ReadVaddr(p []byte, vaddr uint64) error {
	for _, seg := range f.elf.Progs {
		if seg.Type != elf.PT_LOAD || vaddr < seg.Vaddr || vaddr-seg.Vaddr >= seg.Filesz {
			continue
		}
		skip := vaddr - seg.Vaddr
		if uint64(len(p)) > seg.Filesz-skip || seg.Off+skip < seg.Off || seg.Off+skip > f.size {
			break
		}
		return readFullAt(f.r, p, seg.Off+skip)
	}
	return fmt.Errorf("read at ELF virtual address %#x: %w", vaddr, ErrTruncated)
}

// Limits on the reads of RelativeRelocations. Chromium has half a million entries.
const (
	maxDynamic     = 64 << 10  // bytes of the dynamic section
	maxRelocations = 512 << 20 // bytes of the table
	relaSize       = 24        // Elf64_Rela
)

// RelativeRelocations calls yield for every entry of the table DT_RELA that adds only the load
// bias, until yield returns false: the word at the ELF virtual address at will hold value plus the
// bias (System V ABI, AMD64 supplement, R_X86_64_RELATIVE; ELF for the Arm 64-bit Architecture,
// R_AARCH64_RELATIVE). It supports only 64-bit images. A file without the table has no entries.
func (f *File) RelativeRelocations(yield func(at, value uint64) bool) error {
	table, size, err := f.relaTable()
	if err != nil || size == 0 {
		return err
	}
	kind := uint64(elf.R_X86_64_RELATIVE)
	if f.elf.Machine == elf.EM_AARCH64 {
		kind = uint64(elf.R_AARCH64_RELATIVE)
	}
	bo, buf := f.elf.ByteOrder, make([]byte, 1024*relaSize)
	for done := uint64(0); done < size; done += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), size-done)]
		if err := f.ReadVaddr(buf, table+done); err != nil {
			return fmt.Errorf("relocations: %w", err)
		}
		for b := buf; len(b) >= relaSize; b = b[relaSize:] {
			if bo.Uint64(b[8:]) == kind && !yield(bo.Uint64(b), bo.Uint64(b[16:])) {
				return nil
			}
		}
	}
	return nil
}

// relaTable returns the address and the size in bytes of the table DT_RELA, rounded down to whole
// entries. The size is 0 if there is no table.
func (f *File) relaTable() (addr, size uint64, err error) {
	if f.elf.Class != elf.ELFCLASS64 {
		return 0, 0, nil
	}
	for _, p := range f.elf.Progs {
		if p.Type != elf.PT_DYNAMIC {
			continue
		}
		dynamic, err := f.readRange(p.Off, min(p.Filesz, maxDynamic), maxDynamic)
		if err != nil {
			return 0, 0, fmt.Errorf("segment PT_DYNAMIC: %w", err)
		}
		addr, size = f.dynamicWord(dynamic, elf.DT_RELA), f.dynamicWord(dynamic, elf.DT_RELASZ)
	}
	if addr == 0 {
		return 0, 0, nil
	}
	if size > maxRelocations {
		return 0, 0, fmt.Errorf("relocations: %w", limit.Hit(limit.ELF, ErrTooLarge))
	}
	return addr, size - size%relaSize, nil
}

// dynamicWord returns the value of the first entry with the tag want, 0 if there is none.
func (f *File) dynamicWord(dynamic []byte, want elf.DynTag) uint64 {
	for ; len(dynamic) >= 16; dynamic = dynamic[16:] {
		switch tag := elf.DynTag(f.elf.ByteOrder.Uint64(dynamic)); tag {
		case want:
			return f.elf.ByteOrder.Uint64(dynamic[8:])
		case elf.DT_NULL:
			return 0
		}
	}
	return 0
}
