package elffile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"fmt"
	"io"
	"strings"
	"sync"
)

// MaxSection bounds the bytes of a section in memory, decompressed.
const MaxSection = 512 << 20

// Section is a section's content.
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

	inflated *inflated // Data, if the section is compressed
}

// OpenSection finds a section and checks that the file holds it. Nothing is read.
// The first read of a section that is compressed decompresses all of it, into
// memory: Go's tool chain compresses call frame information that is not looked at
// where its table of functions is. Forms and errors are those of Section.
func (f *File) OpenSection(name string) (*SectionReader, error) {
	s := f.section(name)
	if s == nil && strings.HasPrefix(name, ".debug_") {
		s = f.section(".z" + name[1:])
	}
	if s == nil {
		return nil, fmt.Errorf("section %s: %w", name, ErrNoSection)
	}
	if s.Flags&elf.SHF_COMPRESSED == 0 && !strings.HasPrefix(s.Name, ".zdebug_") {
		return f.openRange(name, s.Addr, s.Offset, s.Size)
	}
	content, size, err := f.decompressor(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("section %s: %w", name, err)
	case content == nil:
		return f.openRange(name, s.Addr, s.Offset, s.Size)
	case size > MaxSection:
		return nil, fmt.Errorf("section %s: %w", name, ErrTooLarge)
	}
	data := &inflated{read: func() ([]byte, error) { return f.sectionData(s, MaxSection) }}
	return &SectionReader{Name: name, Addr: s.Addr, Size: size, Data: data, inflated: data}, nil
}

// inflated is the content of a compressed section from when it is first read.
type inflated struct {
	read func() ([]byte, error)
	once sync.Once
	data []byte
	err  error
}

func (i *inflated) bytes() ([]byte, error) {
	i.once.Do(func() { i.data, i.err = i.read() })
	return i.data, i.err
}

// ReadAt implements io.ReaderAt.
func (i *inflated) ReadAt(p []byte, off int64) (int, error) {
	data, err := i.bytes()
	if err != nil {
		return 0, err
	}
	return bytes.NewReader(data).ReadAt(p, off)
}

// openRange returns the size bytes at offset off of the image as a section.
func (f *File) openRange(name string, addr, off, size uint64) (*SectionReader, error) {
	if off > f.size || size > f.size-off {
		return nil, fmt.Errorf("section %s: %w", name, ErrTruncated)
	}
	return &SectionReader{Name: name, Addr: addr, Size: size, Data: io.NewSectionReader(f.r, int64(off), int64(size))}, nil
}

// load reads the whole section.
func (s *SectionReader) load() (*Section, error) {
	var data []byte
	var err error
	switch {
	case s.inflated != nil:
		data, err = s.inflated.bytes()
	case s.Size > MaxSection:
		err = ErrTooLarge
	default:
		data, err = readAll(io.NewSectionReader(s.Data, 0, int64(s.Size)), s.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return &Section{Name: s.Name, Addr: s.Addr, Data: data}, nil
}

// Section reads a section, decompressed if it is stored with SHF_COMPRESSED
// (zlib or zstd) or in the older .zdebug_ form, under whose name it is looked up
// too. Errors: ErrNoSection, ErrTooLarge, ErrTruncated and what decompression says.
func (f *File) Section(name string) (*Section, error) { return loaded(f.OpenSection(name)) }

func loaded(s *SectionReader, err error) (*Section, error) {
	if err != nil {
		return nil, err
	}
	return s.load()
}

// sectionData reads at most limit bytes of s.
func (f *File) sectionData(s *elf.Section, limit uint64) ([]byte, error) {
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		return f.inflate(s, limit)
	case strings.HasPrefix(s.Name, ".zdebug_"):
		return f.inflateGNU(s, limit)
	}
	return f.readRange(s.Offset, s.Size, limit)
}

// inflateGNU reads a section in the form that preceded SHF_COMPRESSED.
func (f *File) inflateGNU(s *elf.Section, limit uint64) ([]byte, error) {
	z, size, err := f.openGNU(s)
	switch {
	case err != nil:
		return nil, err
	case z == nil:
		return f.readRange(s.Offset, s.Size, limit)
	case size > limit:
		return nil, ErrTooLarge
	}
	return readAll(z, size)
}

// openGNU returns the content of a section in the form that preceded
// SHF_COMPRESSED: "ZLIB", the size as a big endian uint64, then a zlib stream. nil
// if it has another form.
func (f *File) openGNU(s *elf.Section) (content io.Reader, size uint64, err error) {
	const headerSize = 12
	head, err := f.readRange(s.Offset, min(s.Size, headerSize), headerSize)
	if err != nil {
		return nil, 0, err
	}
	if len(head) < headerSize || string(head[:4]) != "ZLIB" {
		return nil, 0, nil
	}
	for _, b := range head[4:] {
		size = size<<8 | uint64(b)
	}
	z, err := zlib.NewReader(io.NewSectionReader(f.r, int64(s.Offset)+headerSize, int64(s.Size)-headerSize))
	if err != nil {
		return nil, 0, err
	}
	return z, size, nil
}

// inflate decompresses an SHF_COMPRESSED section.
func (f *File) inflate(s *elf.Section, limit uint64) (data []byte, err error) {
	defer recoverAs(&err)
	if s.Offset > f.size || s.FileSize > f.size-s.Offset {
		return nil, ErrTruncated
	}
	if s.Size > limit {
		return nil, ErrTooLarge
	}
	return readAll(s.Open(), s.Size)
}
