package elffile

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxHashChain bounds the symbols that are compared with one name. Chains of real tables have a
// handful.
const maxHashChain = 1 << 12

// DynamicSymbol returns the exported symbol (.dynsym) of that name, of any type, and false if there
// is none. It uses the table .gnu.hash, so a lookup of a missing name costs a few small reads. It
// finds no symbols in a file without that table.
func (f *File) DynamicSymbol(name string) (Symbol, bool, error) {
	hash := f.elf.SectionByType(elf.SHT_GNU_HASH)
	table := f.elf.SectionByType(elf.SHT_DYNSYM)
	if hash == nil || table == nil || f.elf.Class != elf.ELFCLASS64 {
		return Symbol{}, false, nil
	}
	names, err := f.stringsOf(table)
	if err != nil {
		return Symbol{}, false, fmt.Errorf("dynamic symbol %s: %w", name, err)
	}
	h := hashTable{file: f, offset: hash.Offset, size: hash.Size}
	s, ok := h.findSymbol(name, table, names)
	if h.err != nil {
		return Symbol{}, false, fmt.Errorf("dynamic symbol %s: %w", name, h.err)
	}
	return s, ok, nil
}

// hashTable reads a .gnu.hash section: four words, a Bloom filter of 64-bit words, and buckets and
// chains of 32-bit words. err is the error of the first read that failed.
type hashTable struct {
	file         *File
	offset, size uint64
	err          error
}

func (h *hashTable) findSymbol(name string, table, names *elf.Section) (Symbol, bool) {
	buckets, first := h.u32(0), h.u32(4)
	words, shift := h.u32(8), h.u32(12)
	if h.err != nil || buckets == 0 || words == 0 {
		return Symbol{}, false
	}
	sum := gnuHash(name)
	word := h.u64(16 + 8*uint64(sum/64%words))
	if word>>(sum%64)&1 == 0 || word>>(sum>>(shift%32)%64)&1 == 0 {
		return Symbol{}, false
	}
	begin := 16 + 8*uint64(words)
	i := h.u32(begin + 4*uint64(sum%buckets))
	if i < first || i == 0 {
		return Symbol{}, false
	}
	for n := 0; n < maxHashChain && h.err == nil; n, i = n+1, i+1 {
		entry := h.u32(begin + 4*uint64(buckets) + 4*uint64(i-first))
		if entry|1 == sum|1 {
			if s, ok := h.symbol(i, name, table, names); ok {
				return s, true
			}
		}
		if entry&1 != 0 {
			break // the last entry of the chain
		}
	}
	return Symbol{}, false
}

// symbol returns entry i of the symbol table if it is defined and has that name.
func (h *hashTable) symbol(i uint32, name string, table, names *elf.Section) (Symbol, bool) {
	var b [elf.Sym64Size]byte
	if off := uint64(i) * elf.Sym64Size; off+elf.Sym64Size > table.Size {
		return Symbol{}, false
	} else if h.err = readFullAt(h.file.r, b[:], table.Offset+off); h.err != nil {
		return Symbol{}, false
	}
	s := h.file.decodeSymbol(b[:])
	text := make([]byte, len(name)+1)
	if s.Section == elf.SHN_UNDEF || uint64(s.name)+uint64(len(text)) > names.Size {
		return Symbol{}, false
	}
	h.err = readFullAt(h.file.r, text, names.Offset+uint64(s.name))
	s.Name = name
	return s.Symbol, h.err == nil && string(text) == name+"\x00"
}

// readBytes fills b from offset off of the section.
func (h *hashTable) readBytes(b []byte, off uint64) {
	if h.err == nil && (off > h.size || uint64(len(b)) > h.size-off) {
		h.err = ErrTruncated
	}
	if h.err == nil {
		h.err = readFullAt(h.file.r, b, h.offset+off)
	}
	if h.err != nil {
		clear(b)
	}
}

func (h *hashTable) u32(off uint64) uint32 {
	var b [4]byte
	h.readBytes(b[:], off)
	return h.order().Uint32(b[:])
}

func (h *hashTable) u64(off uint64) uint64 {
	var b [8]byte
	h.readBytes(b[:], off)
	return h.order().Uint64(b[:])
}

func (h *hashTable) order() binary.ByteOrder { return h.file.elf.ByteOrder }

// gnuHash is the hash function of .gnu.hash.
func gnuHash(name string) uint32 {
	h := uint32(5381)
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	return h
}

// IsMusl reports whether the image is linked to the C library musl. It checks the name of the
// dynamic loader and the names of the required libraries.
func (f *File) IsMusl() bool {
	names := f.dynamicStrings(elf.DT_NEEDED)
	if loader := f.section(".interp"); loader != nil {
		if b, err := f.readRange(loader.Offset, loader.Size, maxObjectName); err == nil {
			names = append(names, string(b))
		}
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "libc.so" || strings.Contains(path.Base(name), "musl")
	})
}
