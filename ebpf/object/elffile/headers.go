package elffile

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// Limits on the reads when a file is opened. The largest known files have some tens of thousands of
// sections (objects built with -ffunction-sections).
const (
	maxSections     = 1 << 18
	maxSectionNames = 16 << 20 // bytes of .shstrtab
)

// parseHeaders reads the ELF, program and section headers. It ignores a section table that is
// damaged or absurdly large, because the kernel also runs such files: it uses the program headers
// only.
func parseHeaders(r io.ReaderAt, size uint64) (*elf.File, error) {
	if sectionTableUsable(r, size) {
		if f, err := newELF(r); err == nil {
			return f, nil
		}
	}
	return newELF(&sectionlessReader{r})
}

// newELF is elf.NewFile, but returns panics as errors: debug/elf does not promise to survive
// hostile input.
func newELF(r io.ReaderAt) (f *elf.File, err error) {
	defer recoverAs(&err)
	return elf.NewFile(r)
}

func recoverAs(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("malformed ELF: %v", p)
	}
}

// headerLayout holds the offsets in the ELF header and in a section header that differ between
// 32-bit and 64-bit images (ELF gABI, "ELF Header" and "Section Header").
type headerLayout struct {
	word                      int // bytes of an address
	ehsize                    int
	shoff, shentsize          int
	shnum, shstrndx           int
	shFlags, shSize, shentMin int
	shLink                    int
}

func layoutOf(class elf.Class) headerLayout {
	if class == elf.ELFCLASS32 {
		return headerLayout{word: 4, ehsize: 52, shoff: 32, shentsize: 46, shnum: 48, shstrndx: 50, shFlags: 8,
			shSize: 20, shentMin: 40, shLink: 24}
	}
	return headerLayout{word: 8, ehsize: 64, shoff: 40, shentsize: 58, shnum: 60, shstrndx: 62, shFlags: 8, shSize: 32,
		shentMin: 64, shLink: 40}
}

func (l *headerLayout) readWord(bo binary.ByteOrder, b []byte) uint64 {
	if l.word == 4 {
		return uint64(bo.Uint32(b))
	}
	return bo.Uint64(b)
}

// identify reads the ELF header. ok is false if r does not hold one; elf.NewFile returns a better
// error.
func identify(r io.ReaderAt) (l headerLayout, bo binary.ByteOrder, header []byte, ok bool) {
	ident := make([]byte, elf.EI_NIDENT)
	if _, err := r.ReadAt(ident, 0); err != nil {
		return headerLayout{}, nil, nil, false
	}
	l, bo = layoutOf(elf.Class(ident[elf.EI_CLASS])), binary.LittleEndian
	if elf.Data(ident[elf.EI_DATA]) == elf.ELFDATA2MSB {
		bo = binary.BigEndian
	}
	header = make([]byte, l.ehsize)
	if _, err := r.ReadAt(header, 0); err != nil {
		return headerLayout{}, nil, nil, false
	}
	return l, bo, header, true
}

// sectionTableUsable reports whether it is safe to let elf.NewFile read the section headers.
// elf.NewFile reads all headers and the whole string table of their names, which may be compressed.
func sectionTableUsable(r io.ReaderAt, size uint64) bool {
	l, bo, header, ok := identify(r)
	if !ok {
		return true // not ELF: debug/elf returns the error
	}
	shoff := l.readWord(bo, header[l.shoff:])
	entsize := uint64(bo.Uint16(header[l.shentsize:]))
	num := uint64(bo.Uint16(header[l.shnum:]))
	names := uint64(bo.Uint16(header[l.shstrndx:]))
	if shoff == 0 || shoff > size || entsize < uint64(l.shentMin) {
		return false
	}
	entry := func(i uint64) ([]byte, bool) {
		b := make([]byte, l.shentMin)
		_, err := r.ReadAt(b, int64(shoff+i*entsize))
		return b, err == nil
	}
	if num == 0 || names == uint64(elf.SHN_XINDEX) { // extended numbering
		first, ok := entry(0)
		if !ok {
			return false
		}
		if num == 0 {
			num = l.readWord(bo, first[l.shSize:])
		}
		if names == uint64(elf.SHN_XINDEX) {
			names = uint64(bo.Uint32(first[l.shLink:]))
		}
	}
	if num > maxSections || num*entsize > size-shoff || names >= num {
		return false
	}
	table, ok := entry(names)
	return ok && l.readWord(bo, table[l.shSize:]) <= maxSectionNames &&
		l.readWord(bo, table[l.shFlags:])&uint64(elf.SHF_COMPRESSED) == 0
}

// sectionlessReader shows an ELF image as if it had no section table.
type sectionlessReader struct{ r io.ReaderAt }

func (s *sectionlessReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.r.ReadAt(p, off)
	l, _, _, ok := identify(s.r)
	if !ok || off >= int64(l.ehsize) {
		return n, err
	}
	clear := func(from, to int) {
		for i := max(int64(from), off); i < min(int64(to), off+int64(n)); i++ {
			p[i-off] = 0
		}
	}
	clear(l.shoff, l.shoff+l.word)
	clear(l.shnum, l.shstrndx+2)
	return n, err
}
