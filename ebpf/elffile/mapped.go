package elffile

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
)

// Mapped is the content of a section that is mapped into memory, so that only
// what is read of it takes memory, which the kernel takes back when it is short.
//
// Should the file be truncated, reading gives a fault: whoever reads it uses
// debug.SetPanicOnFault.
type Mapped struct {
	Data []byte // not to be used after Close

	region []byte // that is mapped, with Data in it
	spill  *Spill // that Data counts in
}

// Spill is where sections go that are compressed in their file: decompressed,
// into files without name, so that they too can be mapped. The zero value is
// useful. Its methods may be called concurrently.
type Spill struct {
	Dir   string // "": /var/tmp, or where that cannot be written, as in small containers, the folder that TMPDIR names
	Limit int64  // bytes of all sections at once; 0: DefaultSpill

	used atomic.Int64
}

// DefaultSpill is the default of Spill.Limit.
const DefaultSpill = 4 << 30

// Used returns the bytes of the sections that are open now.
func (s *Spill) Used() int64 { return s.used.Load() }

func (s *Spill) reserve(n int64) error {
	limit := s.Limit
	if limit == 0 {
		limit = DefaultSpill
	}
	if n > limit || s.used.Add(n) > limit {
		if n <= limit {
			s.used.Add(-n)
		}
		return fmt.Errorf("%d bytes more than the limit of %d for decompressed sections: %w", n, limit, ErrTooLarge)
	}
	return nil
}

// MapSection maps a section. One that is compressed is decompressed into spill.
// Forms and errors are those of Section. The File may be closed before the section.
func (f *File) MapSection(name string, spill *Spill) (*Mapped, error) {
	m, err := f.mapSection(name, spill)
	if err != nil {
		return nil, fmt.Errorf("map section %s: %w", name, err)
	}
	return m, nil
}

func (f *File) mapSection(name string, spill *Spill) (*Mapped, error) {
	s := f.section(name)
	if s == nil && strings.HasPrefix(name, ".debug_") {
		s = f.section(".z" + name[1:])
	}
	if s == nil {
		return nil, ErrNoSection
	}
	file, isFile := f.r.(*os.File)
	switch content, size, err := f.decompressor(s); {
	case err != nil:
		return nil, err
	case content != nil:
		return spill.write(content, size)
	case s.Offset > f.size || s.Size > f.size-s.Offset:
		return nil, ErrTruncated
	case !isFile:
		data, err := f.readRange(s.Offset, s.Size, MaxSection)
		return &Mapped{Data: data}, err
	}
	return mapRange(file, s.Offset, s.Size)
}

// decompressor returns the content of a compressed section and its size; nil if
// it is not compressed.
func (f *File) decompressor(s *elf.Section) (r io.Reader, size uint64, err error) {
	defer recoverAs(&err)
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		if s.Offset > f.size || s.FileSize > f.size-s.Offset {
			return nil, 0, ErrTruncated
		}
		return s.Open(), s.Size, nil
	case strings.HasPrefix(s.Name, ".zdebug_"):
		return f.openGNU(s)
	}
	return nil, 0, nil
}

// mapRange maps a range of a file. Pages are read one by one: most of a section
// is never looked at.
func mapRange(file *os.File, off, size uint64) (*Mapped, error) {
	if size == 0 {
		return &Mapped{}, nil
	}
	if size > 1<<46 {
		return nil, ErrTooLarge
	}
	lead := off % uint64(os.Getpagesize())
	region, err := syscall.Mmap(int(file.Fd()), int64(off-lead), int(size+lead), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = syscall.Madvise(region, syscall.MADV_RANDOM) // only costs more I/O if refused
	return &Mapped{Data: region[lead : lead+size : lead+size], region: region}, nil
}

// write copies size bytes to a file without name and maps it.
func (s *Spill) write(r io.Reader, size uint64) (m *Mapped, err error) {
	if size > 1<<40 {
		return nil, ErrTooLarge
	}
	if err := s.reserve(int64(size)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.used.Add(-int64(size))
		}
	}()
	dirs := []string{s.Dir}
	if s.Dir == "" {
		dirs = []string{"/var/tmp", os.TempDir()} // not first /tmp, which is often in memory
	}
	file, err := createIn(dirs)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	if err := copyExactly(file, r, int64(size)); err != nil {
		return nil, err
	}
	if m, err = mapRange(file, 0, size); err == nil {
		m.spill = s
	}
	return m, err
}

// createIn creates a file in the first of the folders that takes one.
func createIn(dirs []string) (file *os.File, err error) {
	for _, dir := range dirs {
		if file, err = os.CreateTemp(dir, "headwater-section-"); err == nil {
			return file, nil
		}
	}
	return nil, fmt.Errorf("a decompressed section needs a folder that can be written: %w", err)
}

func copyExactly(to io.Writer, from io.Reader, size int64) (err error) {
	defer recoverAs(&err) // of a decompressor
	n, err := io.CopyN(to, from, size)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%d of %d bytes: %w", n, size, ErrTruncated)
	}
	return err
}

// Drop takes the pages out of this process's memory; they are read again when
// they are needed.
func (m *Mapped) Drop() {
	if len(m.region) > 0 {
		_ = syscall.Madvise(m.region, syscall.MADV_DONTNEED)
	}
}

// Close ends the mapping.
func (m *Mapped) Close() {
	if len(m.region) > 0 {
		_ = syscall.Munmap(m.region)
		if m.spill != nil {
			m.spill.used.Add(-int64(len(m.Data)))
		}
	}
	m.region, m.Data = nil, nil
}
