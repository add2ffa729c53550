package elffile

import (
	"debug/elf"
	"os"
)

// Segment is a PT_LOAD segment, as its program header describes it.
type Segment struct {
	Offset uint64 // in the file
	Filesz uint64 // bytes in the file
	Vaddr  uint64 // ELF virtual address
	Memsz  uint64 // bytes in memory
}

// findSegments keeps the PT_LOAD segments, which are needed for each mapping of the file.
func (f *File) findSegments() {
	for _, p := range f.elf.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		f.loads = append(f.loads, p)
		if p.Flags&elf.PF_X != 0 {
			f.text = append(f.text, segmentOf(p))
		}
	}
}

// TextSegments returns the executable PT_LOAD segments in the file's order. Callers must not change
// the slice.
func (f *File) TextSegments() []Segment { return f.text }

// OpenText returns the executable PT_LOAD segments with their bytes. It leaves out segments that
// the file does not hold completely.
func (f *File) OpenText() []*SectionReader {
	var text []*SectionReader
	for _, s := range f.TextSegments() {
		if r, err := f.openRange("text", s.Vaddr, s.Offset, s.Filesz); err == nil {
			text = append(text, r)
		}
	}
	return text
}

// CodeRanges returns the ELF virtual addresses [start, end) that hold code. These are the
// executable sections, because linkers put constants into the same segment, or the executable
// segments if there are no such sections.
func (f *File) CodeRanges() [][2]uint64 {
	var code [][2]uint64
	for _, s := range f.elf.Sections {
		if s.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) == elf.SHF_ALLOC|elf.SHF_EXECINSTR && s.Type == elf.SHT_PROGBITS &&
			s.Addr+s.Size > s.Addr {
			code = append(code, [2]uint64{s.Addr, s.Addr + s.Size})
		}
	}
	if code != nil {
		return code
	}
	for _, s := range f.TextSegments() {
		if s.Vaddr+s.Filesz > s.Vaddr {
			code = append(code, [2]uint64{s.Vaddr, s.Vaddr + s.Filesz})
		}
	}
	return code
}

func segmentOf(p *elf.Prog) Segment {
	return Segment{Offset: p.Off, Filesz: p.Filesz, Vaddr: p.Vaddr, Memsz: p.Memsz}
}

// Bias returns the load bias of a mapping [mapStart, mapEnd) of this file at
// file offset mapOffset: an address minus bias, modulo 2^64, is an ELF virtual
// address. For an executable at its fixed address bias is 0; for a prelinked
// library loaded below its preferred address it is "negative".
//
// The mapping may be any part of a loaded segment, as mprotect leaves it. ok is false if no PT_LOAD
// segment covers mapOffset.
func (f *File) Bias(mapStart, mapEnd, mapOffset uint64) (bias uint64, ok bool) {
	if mapEnd <= mapStart {
		return 0, false
	}
	best, page := 0, uint64(os.Getpagesize())
	for _, p := range f.loads {
		fit := mappingFit(p, mapEnd-mapStart, mapOffset, page)
		if fit > best {
			best = fit
			bias = mapStart - mapOffset - (p.Vaddr - p.Off)
		}
	}
	return bias, best > 0
}

// mappingFit returns how well a mapping of size bytes at file offset offset fits a segment, 0 if
// not at all. The kernel maps whole pages, so a page with the end of one segment and the start of
// the next belongs to both. Then the function prefers an executable segment, a segment that starts
// with the mapping, and a segment that holds the whole mapping.
func mappingFit(p *elf.Prog, size, offset, page uint64) int {
	start := p.Off &^ (page - 1)
	end := alignUp(p.Off+p.Filesz, page)
	if p.Off+p.Filesz < p.Off || offset < start || offset >= end {
		return 0
	}
	fit := 1
	if p.Flags&elf.PF_X != 0 {
		fit += 4
	}
	if offset == start {
		fit += 2
	}
	if size <= end-offset {
		fit++
	}
	return fit
}
