package corefile

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// maxOpen bounds the files that are kept open.
const maxOpen = 4096

// file is a file that the process had mapped.
type file struct {
	io.ReaderAt
	size       uint64
	dev, inode uint64
	modified   bool              // since the core was written
	text       []elffile.Segment // executable ones, if it is an ELF file
	closer     io.Closer
}

// opener opens files by path.
type opener func(path string) (*file, error)

// openFile returns an opener of this host's files. written is the time when the core was written.
func openFile(written time.Time) opener {
	return func(path string) (*file, error) {
		f, err := procfs.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &file{
			ReaderAt: f, size: uint64(st.Size), dev: st.Dev, inode: st.Ino, closer: f,
			modified: time.Unix(st.Mtim.Unix()).After(written),
		}, nil
	}
}

// check opens the file of some mappings. If it is not the file that was mapped, or that is uncertain, check returns
// nil, and notes the reason if the mappings had code.
func (m *memory) check(path string, ranges []*mappedFile, open opener, note func(string, ...any)) *file {
	say := note
	if !slices.ContainsFunc(ranges, m.mayHoldCode) {
		say = func(string, ...any) {}
	}
	opened, err := open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		say("%s does not exist: its frames have no names", path)
		return nil
	case err != nil:
		say("%s cannot be read, so its frames have no names: %v", path, err)
		return nil
	}
	was, is := m.buildIDOf(ranges), opened.describe()
	switch {
	case was != "" && is == was, was == "" && !opened.modified:
		return opened
	case was != "":
		say("%s is not the mapped file, so its frames have no names: its build ID is %s, and was %s",
			path, cmp.Or(is, "none"), was)
	default:
		say("%s changed after the core was written, and the core lacks its build ID: its frames have no names", path)
	}
	if opened.closer != nil {
		_ = opened.closer.Close() // it was only read
	}
	return nil
}

// maxHead is how many bytes at the start of a file are searched for its build ID: the core seldom has more than a page.
const maxHead = 64 << 10

// buildIDOf returns the build ID that a file had when it was mapped, "" if the core lacks it. It is in the first page
// of the file, which the kernel writes to cores for that purpose.
func (m *memory) buildIDOf(ranges []*mappedFile) string {
	for _, f := range ranges {
		if f.offset != 0 {
			continue
		}
		head, n := make([]byte, min(f.end-f.start, maxHead)), 0
		for n < len(head) {
			got := m.dumped(head[n:], f.start+uint64(n))
			if got == 0 {
				break
			}
			n += got
		}
		if image, err := elffile.New(bytes.NewReader(head[:n])); err == nil {
			return image.BuildID()
		}
	}
	return ""
}

// describe finds the code of the file, and returns its build ID, "" if it has none or is no ELF file.
func (f *file) describe() string {
	image, err := elffile.New(io.NewSectionReader(f, 0, int64(f.size)))
	if err != nil {
		return ""
	}
	f.text = image.TextSegments()
	return image.BuildID()
}

// hasCode reports whether a range of the file overlaps an executable segment.
func (f *file) hasCode(offset, size uint64) bool {
	return slices.ContainsFunc(f.text, func(s elffile.Segment) bool {
		return s.Offset < offset+size && offset < s.Offset+s.Memsz
	})
}
