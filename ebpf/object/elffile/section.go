package elffile

import (
	"debug/elf"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// MaxSection bounds the bytes of a section that is read completely.
const MaxSection = 512 << 20

// Section is the content of a section.
type Section struct {
	Name string
	Addr uint64 // ELF virtual address of the first byte; 0 for sections that are not loaded
	Data []byte
}

// HasSection reports whether the file has a section of that name with bytes in
// this file. Files made by objcopy --only-keep-debug have headers without bytes.
func (f *File) HasSection(name string) bool { return f.section(name) != nil }

// section finds a section that has bytes in the file.
func (f *File) section(name string) *elf.Section {
	for _, s := range f.elf.Sections {
		if s.Name == name && s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			return s
		}
	}
	return nil
}

// SectionReader is a section whose bytes stay in the file until they are read.
type SectionReader struct {
	Name string
	Addr uint64      // ELF virtual address of the first byte; 0 for sections that are not loaded
	Size uint64      // bytes
	Data io.ReaderAt // of Size bytes; usable until the File is closed

	inflated inflated // Data, if the section is compressed
}

// OpenSection finds a section and checks that the file holds it. It does not read the section. The
// first read of a compressed section decompresses the whole section into memory. The Go tool chain
// compresses its call frame information, which the profiler does not read if the file has a Go
// function table. OpenSection accepts the same formats and returns the same errors as Section.
func (f *File) OpenSection(name string) (*SectionReader, error) {
	s := f.section(name)
	if s == nil && strings.HasPrefix(name, ".debug_") {
		s = f.section(".z" + name[1:])
	}
	if s == nil {
		return nil, fmt.Errorf("section %s: %w", name, ErrNoSection)
	}
	content, size, err := f.decompressor(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("section %s: %w", name, err)
	case content == nil:
		return f.openRange(name, s.Addr, s.Offset, s.Size)
	case size > MaxInflated:
		return nil, fmt.Errorf("section %s: %w", name, limit.Hit(limit.Decompressed, ErrTooLarge))
	}
	data := inflated(sync.OnceValues(func() ([]byte, error) { return f.sectionData(s, MaxInflated) }))
	return &SectionReader{Name: name, Addr: s.Addr, Size: size, Data: data, inflated: data}, nil
}

// openRange returns the size bytes at offset off of the image as a section.
func (f *File) openRange(name string, addr, off, size uint64) (*SectionReader, error) {
	if off > f.size || size > f.size-off {
		return nil, fmt.Errorf("section %s: %w", name, ErrTruncated)
	}
	return &SectionReader{Name: name, Addr: addr, Size: size, Data: io.NewSectionReader(f.r, int64(off), int64(size))},
		nil
}

// loadSection reads the whole section.
func (s *SectionReader) loadSection() (*Section, error) {
	var data []byte
	var err error
	switch {
	case s.inflated != nil:
		data, err = s.inflated()
	case s.Size > MaxSection:
		err = limit.Hit(limit.ELF, ErrTooLarge)
	default:
		data, err = readAll(io.NewSectionReader(s.Data, 0, int64(s.Size)), s.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return &Section{Name: s.Name, Addr: s.Addr, Data: data}, nil
}

// Section reads a section. It decompresses sections with SHF_COMPRESSED (zlib or zstd) and sections
// in the older .zdebug_ form, which it also finds by their .debug_ name. The errors are
// ErrNoSection, ErrTooLarge, ErrTruncated and errors of the decompressor.
func (f *File) Section(name string) (*Section, error) { return loaded(f.OpenSection(name)) }

func loaded(s *SectionReader, err error) (*Section, error) {
	if err != nil {
		return nil, err
	}
	return s.loadSection()
}

// sectionData returns the bytes of s, decompressed, at most most bytes.
func (f *File) sectionData(s *elf.Section, most uint64) ([]byte, error) { return f.inflate(s, most) }
