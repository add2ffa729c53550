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

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Mapped is a section mapped into memory. Only pages that are read take memory, and the kernel
// reclaims them when memory is short.
//
// A read faults if the file was truncated, so readers use debug.SetPanicOnFault.
type Mapped struct {
	Data []byte // invalid after Close

	region []byte // the whole mapping, which contains Data
	spill  *Spill // the Spill that counts Data, if any
}

// Spill decompresses sections into unnamed files, so that compressed sections can also be mapped.
// The zero value is ready to use. Its methods may be called concurrently.
type Spill struct {
	// Dir is the folder of the files. If "", it is /var/tmp, or the folder in TMPDIR if /var/tmp is
	// not writable, as in small containers.
	Dir       string
	Limit     int64         // bytes of all open sections; DefaultSpill if 0
	FileLimit int64         // bytes decompressed for one File, also if its sections are closed; DefaultFileSpill if 0
	Rate      *rate.Limiter // decompressed bytes; no limit if nil

	used  atomic.Int64
	ended atomic.Bool
}

// Defaults of Spill. The debug info of a large C++ program has some 300 MiB. A section never takes
// more than half of the free space of the file system.
const (
	DefaultSpill     = 2 << 30
	DefaultFileSpill = 1 << 30
)

// errEnded says that the Spill has ended.
var errEnded = errors.New("decompressing has ended")

// Used returns the bytes of the open sections.
func (s *Spill) Used() int64 { return s.used.Load() }

// End stops all running decompressions and refuses later ones, with an error. Open sections stay
// open.
func (s *Spill) End() { s.ended.Store(true) }

// reserve reserves n bytes for a section of f, or returns the limit that forbids it.
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

// MapSection maps a section. It decompresses a compressed section into spill, and copies a section
// of a file that is not local into spill. It accepts the same formats and returns the same errors
// as Section. The File may be closed before the Mapped.
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
		return spill.takeSection(f, content, size)
	case s.Offset > f.size || s.Size > f.size-s.Offset:
		return nil, ErrTruncated
	case !isFile:
		data, err := f.readRange(s.Offset, s.Size, MaxSection)
		return &Mapped{Data: data}, err
	case !isLocal:
		return spill.takeSection(f, newTimed(io.NewSectionReader(f.r, int64(s.Offset), int64(s.Size))), s.Size)
	}
	return mapRange(file, s.Offset, s.Size)
}

// MaxMapped bounds the bytes of a section that is mapped directly from its file. The debug info of
// a browser has some 4 GiB.
const MaxMapped = 16 << 30

// mapRange maps a range of a file, without read-ahead: most pages of a section are never read.
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
	_ = syscall.Madvise(region, syscall.MADV_RANDOM) // a failure only costs more I/O
	return &Mapped{Data: region[lead : lead+size : lead+size], region: region}, nil
}

// takeSection maps a copy of the size bytes of a section of f.
func (s *Spill) takeSection(f *File, content *timed, size uint64) (*Mapped, error) {
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

// write copies size bytes to an unnamed file and maps it.
func (s *Spill) write(r io.Reader, size uint64) (*Mapped, error) {
	dirs := []string{s.Dir}
	if s.Dir == "" {
		dirs = []string{"/var/tmp", os.TempDir()} // not /tmp first, which is often in memory
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

// leavesRoom returns an error if size bytes would take more than half of the free space of file's
// file system.
func leavesRoom(file *os.File, size uint64) error {
	var stat syscall.Statfs_t
	if err := syscall.Fstatfs(int(file.Fd()), &stat); err != nil {
		return nil // the write reports the problem
	}
	if free := stat.Bavail * uint64(stat.Bsize); size > free/2 {
		return fmt.Errorf("%d bytes, where %d are free: %w", size, free, ErrTooLarge)
	}
	return nil
}

// createIn creates a file in the first of the folders that is writable.
func createIn(dirs []string) (file *os.File, err error) {
	for _, dir := range dirs {
		if file, err = os.CreateTemp(dir, "headwater-section-"); err == nil {
			return file, nil
		}
	}
	return nil, fmt.Errorf("a decompressed section needs a folder that can be written: %w", err)
}

func copyExactly(to io.Writer, from io.Reader, size int64) (err error) {
	defer recoverAs(&err) // a decompressor may panic
	n, err := io.CopyN(to, from, size)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%d of %d bytes: %w", n, size, ErrTruncated)
	}
	return err
}

// Drop removes the pages from this process's memory. The kernel reads them again on the next
// access.
func (m *Mapped) Drop() {
	if len(m.region) > 0 {
		_ = syscall.Madvise(m.region, syscall.MADV_DONTNEED)
	}
}

// Close unmaps the section.
func (m *Mapped) Close() {
	if len(m.region) > 0 {
		_ = syscall.Munmap(m.region)
	}
	if m.spill != nil {
		m.spill.used.Add(-int64(len(m.Data)))
	}
	m.region, m.Data, m.spill = nil, nil, nil
}
