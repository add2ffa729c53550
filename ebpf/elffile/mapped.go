package elffile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/limit"
	"github.com/headwater/headwater/ebpf/procfs"
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
	// "": /var/tmp, or where that cannot be written, as in small containers, the folder that TMPDIR names
	Dir       string
	Limit     int64         // bytes of all sections at once; 0: DefaultSpill
	FileLimit int64         // bytes of one file's sections, each time that they are decompressed; 0: DefaultFileSpill
	Rate      *rate.Limiter // of bytes decompressed; nil: no limit

	used  atomic.Int64
	ended atomic.Bool
}

// Defaults of Spill. The debug info of a large C++ program has some 300 MiB. Never is
// more than half of the free space of the file system taken.
const (
	DefaultSpill     = 2 << 30
	DefaultFileSpill = 1 << 30
)

// errEnded says that nothing is decompressed any more.
var errEnded = errors.New("decompressing has ended")

// Used returns the bytes of the sections that are open now.
func (s *Spill) Used() int64 { return s.used.Load() }

// End stops what is being decompressed, with an error, and all that comes later.
// Sections that are open stay so.
func (s *Spill) End() { s.ended.Store(true) }

// reserve takes n bytes for a section of f, or says why it may not have them.
func (s *Spill) reserve(f *File, n uint64) error {
	all, file := int64(DefaultSpill), int64(DefaultFileSpill)
	if s.Limit != 0 {
		all = s.Limit
	}
	if s.FileLimit != 0 {
		file = s.FileLimit
	}
	beyond := func(bound int64, of string) error {
		err := fmt.Errorf("%d bytes more than the limit of %d for decompressed sections of %s: %w", n, bound, of, ErrTooLarge)
		return limit.Hit(limit.Decompressed, err)
	}
	switch {
	case n > uint64(file) || f.spilled.Load() > file-int64(n):
		return beyond(file, "one file")
	case n > uint64(all) || s.used.Add(int64(n)) > all:
		if n <= uint64(all) {
			s.used.Add(-int64(n))
		}
		return beyond(all, "all files")
	case s.Rate != nil && !s.Rate.AllowN(time.Now(), int(n)):
		s.used.Add(-int64(n))
		return limit.Hit(limit.Decompressed, fmt.Errorf("%d bytes: %w", n, ErrBusy))
	}
	f.spilled.Add(int64(n))
	return nil
}

// MapSection maps a section. One that is compressed is decompressed into spill, and one
// of a slow file is copied there. Forms and errors are those of Section. The File may be closed before the section.
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
	file, isLocal := f.r.(*os.File)
	_, isFile := f.r.(procfs.File)
	switch content, size, err := f.decompressor(s); {
	case err != nil:
		return nil, err
	case content != nil:
		return spill.take(f, content, size)
	case s.Offset > f.size || s.Size > f.size-s.Offset:
		return nil, ErrTruncated
	case !isFile:
		data, err := f.readRange(s.Offset, s.Size, MaxSection)
		return &Mapped{Data: data}, err
	case !isLocal:
		return spill.take(f, newTimed(io.NewSectionReader(f.r, int64(s.Offset), int64(s.Size))), s.Size)
	}
	return mapRange(file, s.Offset, s.Size)
}

// MaxMapped bounds the bytes of a section that is mapped as it is. The debug info of
// a browser has some 4 GiB.
const MaxMapped = 16 << 30

// mapRange maps a range of a file. Pages are read one by one: most of a section
// is never looked at.
func mapRange(file *os.File, off, size uint64) (*Mapped, error) {
	if size == 0 {
		return &Mapped{}, nil
	}
	if size > MaxMapped {
		return nil, limit.Hit(limit.ELF, ErrTooLarge)
	}
	lead := off % uint64(os.Getpagesize())
	region, err := syscall.Mmap(int(file.Fd()), int64(off-lead), int(size+lead), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = syscall.Madvise(region, syscall.MADV_RANDOM) // only costs more I/O if refused
	return &Mapped{Data: region[lead : lead+size : lead+size], region: region}, nil
}

// take maps a copy of the size bytes of a section of f.
func (s *Spill) take(f *File, content *timed, size uint64) (*Mapped, error) {
	if err := s.reserve(f, size); err != nil {
		return nil, err
	}
	content.ended = s.ended.Load
	m, err := s.write(content, size)
	if err != nil {
		s.used.Add(-int64(size))
		return nil, err
	}
	m.spill = s
	return m, nil
}

// write copies size bytes to a file without name and maps it.
func (s *Spill) write(r io.Reader, size uint64) (*Mapped, error) {
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
	if err := leavesRoom(file, size); err != nil {
		return nil, limit.Hit(limit.Decompressed, err)
	}
	if err := copyExactly(file, r, int64(size)); err != nil {
		return nil, err
	}
	return mapRange(file, 0, size)
}

// leavesRoom returns an error if size bytes would take more than half of what is
// free where file is.
func leavesRoom(file *os.File, size uint64) error {
	var stat syscall.Statfs_t
	if err := syscall.Fstatfs(int(file.Fd()), &stat); err != nil {
		return nil // writing will show it
	}
	if free := stat.Bavail * uint64(stat.Bsize); size > free/2 {
		return fmt.Errorf("%d bytes, where %d are free: %w", size, free, ErrTooLarge)
	}
	return nil
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
	}
	if m.spill != nil {
		m.spill.used.Add(-int64(len(m.Data)))
	}
	m.region, m.Data, m.spill = nil, nil, nil
}
