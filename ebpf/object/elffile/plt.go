package elffile

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// Stub is an entry of the procedure linkage table: code that jumps to a function
// of another image through a word of the global offset table.
type Stub struct {
	Value uint64 // ELF virtual address of its first instruction
	Size  uint64 // bytes
	// Name is the function's name. If it is "", Resolver is the ELF virtual address of the function
	// in this image that selects the target (R_*_IRELATIVE).
	Name     string
	Resolver uint64
}

// Limits on stubs. Chromium has two thousand.
const (
	maxPLT   = 8 << 20 // bytes of a section
	maxStubs = 1 << 17
)

// stub is a Stub whose function is not resolved yet.
type stub struct {
	start, size uint64
	slot        uint64 // address of the word that it jumps through
	index       int    // index of its entry in .rela.plt if not -1; then slot is unused
}

// Stubs returns the stubs in the sections .plt, .plt.got and .plt.sec of x86-64 and AArch64 images.
// It decodes their instructions and looks up the relocations of their slots. It leaves out stubs
// that lead to no function.
func (f *File) Stubs() ([]Stub, error) {
	if f.elf.Class != elf.ELFCLASS64 {
		return nil, nil
	}
	var all []stub
	for _, name := range []string{".plt", ".plt.got", ".plt.sec"} {
		s := f.section(name)
		if s == nil {
			continue
		}
		code, err := f.sectionData(s, maxPLT)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", name, err)
		}
		switch f.elf.Machine {
		case elf.EM_X86_64:
			all = append(all, stubsX86(code, s.Addr, int(min(s.Entsize, 64)))...)
		case elf.EM_AARCH64:
			all = append(all, stubsArm64(code, s.Addr)...)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return f.resolveStubs(all[:min(len(all), maxStubs)])
}

// stubsX86 finds "jmp *slot(%rip)" and, in the lazy half of a table with branch tracking, "push
// $index" (System V ABI, AMD64 supplement, "Procedure Linkage Table"). Entries have 16 bytes, or 8
// in a table without lazy binding.
func stubsX86(code []byte, addr uint64, entry int) []stub {
	if entry != 8 {
		entry = 16
	}
	var stubs []stub
	for at := 0; at+entry <= len(code); at += entry {
		b, pc := code[at:at+entry], addr+uint64(at)
		s := stub{start: pc, size: uint64(entry), index: -1}
		i := 0
		if binary.LittleEndian.Uint32(b) == 0xfa1e0ff3 { // endbr64
			i = 4
		}
		if i < len(b) && b[i] == 0xf2 { // bnd
			i++
		}
		if i+6 <= len(b) && b[i] == 0x41 && b[i+1] == 0xbb { // mov $index, %r11d; of mold
			i += 6
		}
		switch {
		case i+6 <= len(b) && b[i] == 0xff && b[i+1] == 0x25:
			s.slot = pc + uint64(i) + 6 + uint64(int64(int32(binary.LittleEndian.Uint32(b[i+2:]))))
		case i+5 <= len(b) && b[i] == 0x68:
			s.index = int(binary.LittleEndian.Uint32(b[i+1:]))
		default:
			continue
		}
		stubs = append(stubs, s)
	}
	return stubs
}

// stubsArm64 finds "adrp x16, page; ldr x17, [x16, offset]" (ELF for the Arm 64-bit Architecture,
// "PLT Sequences"), optionally after "bti c".
func stubsArm64(code []byte, addr uint64) []stub {
	const bti = 0xd503245f
	var stubs []stub
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(code[i:]) }
	for at := 0; at+16 <= len(code); at += 4 {
		adrp, ldr := word(at), word(at+4)
		if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
			continue
		}
		pc := addr + uint64(at)
		page := int64(adrp>>5&0x7ffff)<<2 | int64(adrp>>29&3)
		page = page << 43 >> 43 << 12 // sign-extend 21 bits
		s := stub{start: pc, size: 16, index: -1}
		s.slot = pc&^4095 + uint64(page) + uint64(ldr>>10&0xfff)*8
		if at >= 4 && word(at-4) == bti {
			s.start, s.size = pc-4, 20
		}
		stubs = append(stubs, s)
	}
	return stubs
}

// resolveStubs resolves the stubs through the relocations of their slots.
func (f *File) resolveStubs(all []stub) ([]Stub, error) {
	bySlot, byIndex := map[uint64][]int{}, map[int][]int{}
	for i, s := range all {
		if s.index >= 0 {
			byIndex[s.index] = append(byIndex[s.index], i)
		} else {
			bySlot[s.slot] = append(bySlot[s.slot], i)
		}
	}
	names, err := f.dynamicNames()
	if err != nil {
		return nil, err
	}
	var out []Stub
	found := func(stubs []int, symbol uint32, addend uint64) {
		for _, i := range stubs {
			s := Stub{Value: all[i].start, Size: all[i].size}
			if symbol == 0 {
				s.Resolver = addend
			} else if s.Name = names(symbol); s.Name == "" {
				continue
			}
			out = append(out, s)
		}
	}
	for _, name := range []string{".rela.plt", ".rela.dyn"} {
		index := -1
		err := f.relocations(name, func(at, info, addend uint64) bool {
			index++
			if !f.isSlot(uint32(info)) {
				return true
			}
			found(bySlot[at], uint32(info>>32), addend)
			delete(bySlot, at)
			if name == ".rela.plt" {
				found(byIndex[index], uint32(info>>32), addend)
			}
			return len(bySlot)+len(byIndex) > 0
		})
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", name, err)
		}
	}
	return out, nil
}

// isSlot reports whether relocations of that type fill the slots of stubs.
func (f *File) isSlot(typ uint32) bool {
	if f.elf.Machine == elf.EM_AARCH64 {
		switch elf.R_AARCH64(typ) {
		case elf.R_AARCH64_JUMP_SLOT, elf.R_AARCH64_GLOB_DAT, elf.R_AARCH64_IRELATIVE:
			return true
		}
		return false
	}
	switch elf.R_X86_64(typ) {
	case elf.R_X86_64_JMP_SLOT, elf.R_X86_64_GLOB_DAT, elf.R_X86_64_IRELATIVE:
		return true
	}
	return false
}

// relocations yields the Elf64_Rela entries of a section.
func (f *File) relocations(name string, yield func(at, info, addend uint64) bool) error {
	s := f.section(name)
	if s == nil || s.Type != elf.SHT_RELA || s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	if s.Offset > f.size || s.Size > f.size-s.Offset {
		return ErrTruncated
	}
	if s.Size > maxRelocations {
		return limit.Hit(limit.ELF, ErrTooLarge)
	}
	bo, size := f.elf.ByteOrder, s.Size-s.Size%relaSize
	buf := make([]byte, min(1024*relaSize, size))
	for done := uint64(0); done < size; done += uint64(len(buf)) {
		buf = buf[:min(uint64(len(buf)), size-done)]
		if err := readFullAt(f.r, buf, s.Offset+done); err != nil {
			return err
		}
		for b := buf; len(b) >= relaSize; b = b[relaSize:] {
			if !yield(bo.Uint64(b), bo.Uint64(b[8:]), bo.Uint64(b[16:])) {
				return nil
			}
		}
	}
	return nil
}

// dynamicNames returns a function that maps the index of a symbol in .dynsym to its name, "" if
// there is none.
func (f *File) dynamicNames() (func(uint32) string, error) {
	table := f.elf.SectionByType(elf.SHT_DYNSYM)
	if table == nil {
		return func(uint32) string { return "" }, nil
	}
	strings, err := f.stringsOf(table)
	if err != nil {
		return nil, err
	}
	names := (&SymbolTable{file: f, table: table, strings: strings}).AllNames()
	var b [elf.Sym64Size]byte
	return func(symbol uint32) string {
		at := uint64(symbol) * elf.Sym64Size
		if at+elf.Sym64Size > table.Size || readFullAt(f.r, b[:], table.Offset+at) != nil {
			return ""
		}
		name, err := names.At(f.elf.ByteOrder.Uint32(b[:]))
		if err != nil {
			return ""
		}
		return string(name)
	}, nil
}
