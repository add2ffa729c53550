package corefile

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxSegments is more than the mappings that the kernel lets a process have by default (vm.max_map_count, 65530), and
// few enough to be read fast.
const maxSegments = 1 << 20

// segment is a program header.
type segment struct {
	kind   elf.ProgType
	flags  elf.ProgFlag
	offset uint64
	vaddr  uint64
	filesz uint64
	memsz  uint64
}

// headers is the content of the core's ELF headers.
type headers struct {
	machine elf.Machine
	notes   []segment
	loads   []segment // by vaddr
	end     uint64    // of the core, by its headers
}

const (
	headerSize  = 64 // Elf64_Ehdr
	programSize = 56 // Elf64_Phdr
	sectionSize = 64 // Elf64_Shdr
	manyHeaders = 0xffff
)

var order = binary.LittleEndian

func readHeaders(r sized) (*headers, error) {
	var b [headerSize]byte
	if _, err := r.ReadAt(b[:], 0); err != nil || string(b[:4]) != elf.ELFMAG {
		return nil, errors.New("it is not an ELF file")
	}
	if elf.Type(order.Uint16(b[16:])) != elf.ET_CORE {
		return nil, fmt.Errorf("it is not a core file: its type is %v", elf.Type(order.Uint16(b[16:])))
	}
	h := &headers{machine: elf.Machine(order.Uint16(b[18:]))}
	known := h.machine == elf.EM_X86_64 || h.machine == elf.EM_AARCH64
	if !known || elf.Class(b[4]) != elf.ELFCLASS64 || elf.Data(b[5]) != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("cores of %v (%v, %v) are not supported: only those of x86-64 and arm64 are",
			h.machine, elf.Class(b[4]), elf.Data(b[5]))
	}
	if size := order.Uint16(b[54:]); size != programSize {
		return nil, fmt.Errorf("its program headers have %d bytes, want %d", size, programSize)
	}
	count := uint64(order.Uint16(b[56:]))
	if count == manyHeaders { // then the first section header has it
		var s [sectionSize]byte
		if _, err := r.ReadAt(s[:], int64(order.Uint64(b[40:])&(1<<63-1))); err != nil {
			return nil, fmt.Errorf("number of program headers: %w", err)
		}
		count = uint64(order.Uint32(s[44:]))
	}
	if count > maxSegments {
		return nil, fmt.Errorf("it has %d program headers, more than %d", count, maxSegments)
	}
	return h, h.readSegments(r, order.Uint64(b[32:]), count)
}

func (h *headers) readSegments(r sized, offset, count uint64) error {
	size := uint64(r.Size())
	if offset > size || count*programSize > size-offset {
		return errors.New("its program headers are not in the file: it is truncated too early")
	}
	table := make([]byte, count*programSize)
	if _, err := r.ReadAt(table, int64(offset)); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("program headers: %w", err)
	}
	for b := range slices.Chunk(table, programSize) {
		s := segment{
			kind: elf.ProgType(order.Uint32(b)), flags: elf.ProgFlag(order.Uint32(b[4:])), offset: order.Uint64(b[8:]),
			vaddr: order.Uint64(b[16:]), filesz: order.Uint64(b[32:]), memsz: order.Uint64(b[40:]),
		}
		if s.offset >= 1<<62 || s.filesz >= 1<<62 || s.vaddr+s.memsz < s.vaddr {
			continue // it is invalid
		}
		h.end = max(h.end, s.offset+s.filesz)
		switch s.kind {
		case elf.PT_NOTE:
			h.notes = append(h.notes, s)
		case elf.PT_LOAD:
			h.loads = append(h.loads, s)
		}
	}
	slices.SortStableFunc(h.loads, func(a, b segment) int { return cmp.Compare(a.vaddr, b.vaddr) })
	last := uint64(0)
	h.loads = slices.DeleteFunc(h.loads, func(s segment) bool { // a malformed core's may overlap
		overlaps := s.vaddr < last
		last = max(last, s.vaddr+s.memsz)
		return overlaps
	})
	return nil
}
