package walks

import "debug/elf"

// Segments knows how files are mapped, read by debug/elf and not by the profiler.
type Segments map[string][]*elf.Prog

// Vaddr returns the ELF virtual address of an offset in a file; the offset itself where
// there is none.
func (s Segments) Vaddr(path string, offset uint64) uint64 {
	segments, known := s[path]
	if !known {
		if f, err := elf.Open(path); err == nil {
			segments = f.Progs
			f.Close()
		}
		s[path] = segments
	}
	for _, p := range segments {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset-p.Off < p.Filesz {
			return p.Vaddr + offset - p.Off
		}
	}
	return offset
}
