package main

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
)

// plt is the procedure linkage table of a statically linked program. It has no call frame information, so perf's stacks
// end there.
type plt struct {
	file      string
	low, high uint64 // 0, 0: for a dynamically linked program
}

func openPLT(path string) (p plt, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	dynamic := slices.ContainsFunc(file.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP })
	if s := file.Section(".plt"); s != nil && !dynamic {
		p = plt{filepath.Base(path), s.Addr, s.Addr + s.Size}
	}
	return p, nil
}

// without removes the stacks whose leaf is in the table.
func (p plt) without(all []stack) []stack {
	return slices.DeleteFunc(all, func(s stack) bool {
		leaf := s.frames[0]
		return leaf.file == p.file && leaf.address >= p.low && leaf.address < p.high
	})
}
