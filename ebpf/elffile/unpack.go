package elffile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/limit"
)

// Limits on compressed sections, whose headers claim what they like. Those of
// debug files are 2 to 8 times as large as their compressed form, single ones 30
// times.
const (
	MaxRatio    = 64               // claimed bytes per compressed byte,
	ratioSlack  = 1 << 20          // above this many bytes
	MaxInflated = 64 << 20         // bytes of one section in memory
	UnpackTime  = 20 * time.Second // for one section
)

// packed reports whether a section is stored with SHF_COMPRESSED or in the form that
// preceded it.
func packed(s *elf.Section) bool {
	return s.Flags&elf.SHF_COMPRESSED != 0 || strings.HasPrefix(s.Name, ".zdebug_")
}

// decompressor returns the content of a compressed section and its size; nil if
// it is not compressed.
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

// inflate decompresses a section into memory; one that is not compressed is read.
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

// timed ends a reader that takes too long.
type timed struct {
	from  io.Reader
	until time.Time
	ended func() bool // asks for an early end; nil never does
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

// inflated returns the content of a compressed section, which it decompresses when
// it is called first.
type inflated func() ([]byte, error)

// ReadAt implements io.ReaderAt.
func (i inflated) ReadAt(p []byte, off int64) (int, error) {
	data, err := i()
	if err != nil {
		return 0, err
	}
	return bytes.NewReader(data).ReadAt(p, off)
}
