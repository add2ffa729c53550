package elffile

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Copies opens files whose reads may hang, see procfs.Local. It copies them into unnamed temporary
// files, whose reads do not hang. The zero value is ready to use. Its methods may be called
// concurrently.
type Copies struct {
	Limit int64 // bytes of all open copies; MaxCopies if 0

	used atomic.Int64
}

// MaxCopy bounds the size of a copied file, CopyTime the duration of the copy, and MaxCopies the
// size of all copies together. A copy never takes more than half of the free space of the file
// system.
const (
	MaxCopy   = 256 << 20
	MaxCopies = 2 << 30
	CopyTime  = time.Minute
)

// Open is NewFromFile, but copies a file that is not local. The error is ErrTooLarge if the file
// exceeds a limit. Open takes ownership of f.
func (c *Copies) Open(f procfs.File) (*File, error) {
	if _, local := f.(*os.File); local {
		return NewFromFile(f)
	}
	defer f.Close()
	copied, err := c.copyFile(f)
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", f.Name(), err)
	}
	file, err := NewFromFile(copied.File)
	if err != nil {
		c.used.Add(-copied.size)
		return nil, err
	}
	file.closer = copied
	return file, nil
}

// copied is an open copy. It counts in Copies.used until it is closed.
type copied struct {
	*os.File
	size int64
	of   *Copies
}

// Close closes the file.
func (c *copied) Close() error {
	c.of.used.Add(-c.size)
	return c.File.Close()
}

func (c *Copies) copyFile(f procfs.File) (*copied, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size, all := info.Size(), int64(MaxCopies)
	if c.Limit != 0 {
		all = c.Limit
	}
	if size > MaxCopy {
		return nil, limit.Hit(limit.Copied, fmt.Errorf("%d bytes: %w", size, ErrTooLarge))
	}
	if c.used.Add(size) > all {
		c.used.Add(-size)
		return nil, limit.Hit(limit.Copied, fmt.Errorf("%d bytes more than the limit of %d for copies of all files: %w",
			size, all, ErrTooLarge))
	}
	to, err := writeCopy(f, size)
	if err != nil {
		c.used.Add(-size)
		return nil, err
	}
	return &copied{to, size, c}, nil
}

func writeCopy(f io.ReaderAt, size int64) (*os.File, error) {
	to, err := createIn([]string{"/var/tmp", os.TempDir()})
	if err != nil {
		return nil, err
	}
	if err = os.Remove(to.Name()); err == nil {
		if err = leavesRoom(to, uint64(size)); err != nil {
			err = limit.Hit(limit.Copied, err)
		}
	}
	if err == nil {
		err = copyExactly(to, &hurried{io.NewSectionReader(f, 0, size), time.Now().Add(CopyTime)}, size)
	}
	if err != nil {
		to.Close()
		return nil, err
	}
	return to, nil
}

// hurried is a reader that fails after a deadline.
type hurried struct {
	io.Reader
	deadline time.Time
}

func (h *hurried) Read(b []byte) (int, error) {
	if time.Now().After(h.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return h.Reader.Read(b)
}
