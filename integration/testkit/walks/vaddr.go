package walks

import (
	"debug/elf"
	"slices"
)

// Segments caches the segments of files, read by debug/elf and not by the profiler.
type Segments map[string][]*elf.Prog

// Vaddr returns the ELF virtual address of an offset in a file, or the offset itself if no segment contains it.
func (s Segments) Vaddr(path string, offset uint64) uint64 {
	for _, p := range s.segmentsOf(path) {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset-p.Off < p.Filesz {
			return p.Vaddr + offset - p.Off
		}
	}
	return offset
}

// IsCode reports whether an ELF virtual address of a file is mapped as code, in whole pages. It returns true for each
// address of a file that cannot be read.
func (s Segments) IsCode(path string, vaddr uint64) bool {
	const page = 4096
	segments := s.segmentsOf(path)
	return len(segments) == 0 || slices.ContainsFunc(segments, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 &&
			vaddr >= p.Vaddr&^(page-1) && vaddr < (p.Vaddr+p.Filesz+page-1)&^(page-1)
	})
}

func (s Segments) segmentsOf(path string) []*elf.Prog {
	segments, known := s[path]
	if !known {
		if f, err := elf.Open(path); err == nil {
			segments = f.Progs
			f.Close()
		}
		s[path] = segments
	}
	return segments
}
