package tablestore

import (
	"fmt"

	"github.com/headwater/headwater/ebpf/unwind"
)

// Mappings is the location of a process's mappings in table memory. The zero value is a process without mappings.
type Mappings struct{ run run }

// Word returns the index of the first word.
func (m Mappings) Word() uint32 { return m.run.start }

// AddMappings stores the mappings of a process, sorted by start and not overlapping.
func (s *Store) AddMappings(mappings []unwind.Mapping) (Mappings, error) {
	if len(mappings) == 0 {
		return Mappings{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, words, err := s.alloc(len(mappings) * MappingWords)
	if err != nil {
		return Mappings{}, fmt.Errorf("store %d mappings: %w", len(mappings), err)
	}
	for i, m := range mappings {
		w := words[i*MappingWords:]
		w[0], w[1], w[2] = m.Start, m.End, m.Bias
		w[3] = uint64(m.Exe) | uint64(directoryOf(m.Directory))<<32
	}
	return Mappings{r}, nil
}

// RemoveMappings frees mappings that no process uses.
func (s *Store) RemoveMappings(m Mappings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slabs.release(m.run)
}

// directoryOf encodes a directory like struct mapping in bpf/abi/rows.h. It is 0 only for a directory without pages.
func directoryOf(d unwind.Directory) uint32 {
	if d.Pages == 0 {
		return 0
	}
	size := uint32(d.Shift) - unwind.MinPageShift + 1
	return zeroPage(d) | size<<WordBits
}

// zeroPage returns the index that the entry of page 0 would have, in the bits of an index.
func zeroPage(d unwind.Directory) uint32 { return (d.Word - d.First) & WordMask }
