package elffile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// Limits on compressed sections, whose headers may claim any size. Sections of debug files are 2 to
// 8 times as large as their compressed form, and in a few cases 30 times.
const (
	MaxRatio    = 64               // claimed bytes per compressed byte,
	ratioSlack  = 1 << 20          // above this many bytes
	MaxInflated = 64 << 20         // bytes of one section in memory
	UnpackTime  = 20 * time.Second // for one section
)

// packed reports whether a section is compressed, with SHF_COMPRESSED or in the older .zdebug_
// form.
func packed(s *elf.Section) bool {
	return s.Flags&elf.SHF_COMPRESSED != 0 || strings.HasPrefix(s.Name, ".zdebug_")
}

// decompressor returns a reader of the content of a compressed section and the content's size; nil
// if the section is not compressed.
func (f *File) decompressor(s *elf.Section) (content *timed, size uint64, err error) {
	defer recoverAs(&err)
	var r io.Reader
	inFile := s.FileSize
	switch {
	case !packed(s):
		return nil, 0, nil
	case s.Offset > f.size || inFile > f.size-s.Offset:
		return nil, 0, ErrTruncated
	case s.Flags&elf.SHF_COMPRESSED != 0:
		r, size = s.Open(), s.Size
	default:
		if r, size, err = f.openGNU(s); r == nil || err != nil {
			return nil, 0, err
		}
	}
	if size > ratioSlack && size/MaxRatio > inFile {
		return nil, 0, limit.Hit(limit.Decompressed,
			fmt.Errorf("%d bytes that claim to be %d: %w", inFile, size, ErrTooLarge))
	}
	return newTimed(r), size, nil
}

// openGNU returns a reader of the content of a section in the .zdebug_ form: "ZLIB", the size as a
// big endian uint64, then a zlib stream. It returns nil if the section has another form.
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

// inflate reads a section into memory and decompresses it if it is compressed.
func (f *File) inflate(s *elf.Section, most uint64) (data []byte, err error) {
	defer recoverAs(&err)
	content, size, err := f.decompressor(s)
	switch {
	case err != nil:
		return nil, err
	case content == nil:
		return f.readRange(s.Offset, s.Size, most)
	case size > min(most, MaxInflated):
		return nil, limit.Hit(limit.Decompressed, ErrTooLarge)
	}
	return readAll(content, size)
}

// timed is a reader that fails after a deadline.
type timed struct {
	from  io.Reader
	until time.Time
	ended func() bool // reports whether to stop early; nil if never
}

func newTimed(r io.Reader) *timed { return &timed{from: r, until: time.Now().Add(UnpackTime)} }

// Read implements io.Reader.
func (t *timed) Read(p []byte) (int, error) {
	if t.ended != nil && t.ended() {
		return 0, errEnded
	}
	if time.Now().After(t.until) {
		return 0, limit.Hit(limit.Decompressed, fmt.Errorf("decompressing takes longer than %v", UnpackTime))
	}
	return t.from.Read(p[:min(len(p), readChunk)])
}

// inflated returns the content of a compressed section. The first call decompresses it.
type inflated func() ([]byte, error)

// ReadAt implements io.ReaderAt.
func (i inflated) ReadAt(p []byte, off int64) (int, error) {
	data, err := i()
	if err != nil {
		return 0, err
	}
	return bytes.NewReader(data).ReadAt(p, off)
}
