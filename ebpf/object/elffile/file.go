// Package elffile reads the parts of an ELF image that a profiler needs: build ID, load bias,
// unwind sections, function symbols and the debug link.
//
// Images come from processes that the profiler does not control. Every size is checked against the
// file and against a limit before memory is allocated, and a damaged section table does not hide
// the program headers. The package reads with pread, never through a mapping: if a file is
// truncated during a read, the result must be an error, not SIGBUS.
package elffile

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Errors that callers act on.
var (
	// ErrNoSection says that the file has no such section, or one without bytes.
	ErrNoSection = errors.New("no such section")
	// ErrTooLarge says that a part of the file exceeds this package's limits.
	ErrTooLarge = errors.New("exceeds the size limit")
	// ErrBusy says that too many bytes were read or decompressed recently; try again later.
	ErrBusy = errors.New("the budget for reading is used up, this file is read later")
	// ErrTruncated says that a header points past the end of the file.
	ErrTruncated = errors.New("reaches past the end of the file")
	// ErrNotRegular says that a path names a directory, device, pipe or socket.
	ErrNotRegular = procfs.ErrNotRegular
)

// File is an open ELF image. Its methods, except Close, may be called concurrently.
type File struct {
	elf    *elf.File
	loads  []*elf.Prog // PT_LOAD segments
	text   []Segment   // executable PT_LOAD segments
	r      io.ReaderAt
	size   uint64 // bytes in the image; math.MaxInt64 when unknown
	closer io.Closer

	modified time.Time    // modification time of the file at Open
	spilled  atomic.Int64 // bytes decompressed into a Spill
}

// Open opens the image at path. The caller closes it.
func Open(path string) (*File, error) {
	f, err := procfs.Open("", path) // never blocks on a pipe in place of a library
	if err != nil {
		return nil, err // already names the operation and the path
	}
	return NewFromFile(f)
}

// NewFromFile reads the image from an open file and takes ownership of f, also if it returns an
// error. It does not map sections of a file that is not local, see procfs.File.
func NewFromFile(f procfs.File) (*File, error) {
	file, err := fromFile(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open ELF %s: %w", f.Name(), err)
	}
	return file, nil
}

func fromFile(f procfs.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	file, err := newFile(f, uint64(info.Size()))
	if err != nil {
		return nil, err
	}
	file.closer, file.modified = f, info.ModTime()
	return file, nil
}

// New reads an image that is not a file, such as the vdso. If r has a method
// Size() int64, as bytes.Reader has, sizes in headers are checked against it.
// Close does not close r.
func New(r io.ReaderAt) (*File, error) {
	size := uint64(math.MaxInt64)
	if s, ok := r.(interface{ Size() int64 }); ok {
		size = uint64(max(s.Size(), 0))
	}
	f, err := newFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("read ELF image: %w", err)
	}
	return f, nil
}

func newFile(r io.ReaderAt, size uint64) (*File, error) {
	parsed, err := parseHeaders(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{elf: parsed, r: r, size: size}
	f.findSegments()
	return f, nil
}

// Close closes the underlying file if Open or NewFromFile made the File.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	closer := f.closer
	f.closer = nil
	return closer.Close()
}

// Machine returns the instruction set, e_machine.
func (f *File) Machine() elf.Machine { return f.elf.Machine }

// Type returns the kind of image, e_type: elf.ET_EXEC, elf.ET_DYN, ...
func (f *File) Type() elf.Type { return f.elf.Type }

// Entry returns the ELF virtual address where the kernel starts the image,
// e_entry; 0 if there is none.
func (f *File) Entry() uint64 { return f.elf.Entry }

// IsLoader reports whether the image is glibc's dynamic loader: a shared object
// with an entry point, without a loader of its own, and of that name.
func (f *File) IsLoader() bool {
	if f.elf.Type != elf.ET_DYN || f.elf.Entry == 0 {
		return false
	}
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return strings.HasPrefix(f.soname(), "ld-linux")
}

// IsStarted reports whether the kernel starts programs at the image's entry point: the image is a
// program or a dynamic loader. The entry point of a library has no meaning unless the library is
// run as a program.
func (f *File) IsStarted() bool {
	if f.elf.Entry == 0 {
		return false
	}
	if f.elf.Type == elf.ET_EXEC {
		return true
	}
	const isPIE = 0x08000000 // DF_1_PIE
	if flags, err := f.elf.DynValue(elf.DT_FLAGS_1); err == nil && len(flags) > 0 && flags[0]&isPIE != 0 {
		return true
	}
	hasLoader := slices.ContainsFunc(f.elf.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if hasLoader {
		return f.soname() == ""
	}
	if strings.HasPrefix(f.soname(), "ld") {
		return true
	}
	_, ok, err := f.DynamicSymbol("__libc_start_main")
	return ok && err == nil // musl's C library is its loader
}

// soname returns the image's own library name (DT_SONAME), "" if it has none.
func (f *File) soname() string {
	if found := f.dynamicStrings(elf.DT_SONAME); len(found) > 0 {
		return found[0]
	}
	return ""
}

// dynamicStrings returns the strings of a tag in the dynamic section.
func (f *File) dynamicStrings(tag elf.DynTag) []string {
	dynamic := f.elf.SectionByType(elf.SHT_DYNAMIC)
	if dynamic == nil || int(dynamic.Link) >= len(f.elf.Sections) {
		return nil
	}
	// debug/elf reads both sections completely.
	names := f.elf.Sections[dynamic.Link]
	if packed(dynamic) || packed(names) || dynamic.Size > maxDynamic || names.Size > maxDynamicSymbols {
		return nil
	}
	found, err := f.elf.DynString(tag)
	if err != nil {
		return nil
	}
	return found
}

// IsCLibrary reports whether the image is glibc's C library: it has that name and a loader, and is
// small enough to read its names.
func (f *File) IsCLibrary() bool {
	const most = 8 << 20
	hasLoader := slices.ContainsFunc(f.elf.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if f.elf.Type != elf.ET_DYN || !hasLoader || f.size > most {
		return false
	}
	return f.soname() == "libc.so.6"
}

// Class returns whether the image is 32 or 64 bit.
func (f *File) Class() elf.Class { return f.elf.Class }

// readRange returns the size bytes at offset off of the image. It allocates no
// more than the image holds and never more than most.
func (f *File) readRange(off, size, most uint64) ([]byte, error) {
	if off > f.size || size > f.size-off {
		return nil, ErrTruncated
	}
	if size > most {
		return nil, limit.Hit(limit.ELF, ErrTooLarge)
	}
	return readAll(io.NewSectionReader(f.r, int64(off), int64(size)), size)
}

// readChunk bounds the memory that is allocated only because a header claims a size.
const readChunk = 1 << 20

// readAll reads exactly size bytes, and grows its buffer only as bytes arrive.
func readAll(r io.Reader, size uint64) ([]byte, error) {
	buf := make([]byte, 0, min(size, readChunk))
	for uint64(len(buf)) < size {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(size, 4*uint64(cap(buf))))
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, ErrTruncated
		}
		if err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// readFullAt fills buf from offset off. The end of the file is ErrTruncated.
func readFullAt(r io.ReaderAt, buf []byte, off uint64) error {
	n, err := r.ReadAt(buf, int64(off))
	switch {
	case n == len(buf):
		return nil // the last bytes may come with io.EOF
	case err == io.EOF:
		return ErrTruncated
	}
	return err
}
