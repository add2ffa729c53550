package elffile

import (
	"fmt"
	"io"
	"os"
	"time"
)

// MaxCopy is the size of the largest file that OpenCopy copies, and copyTime how long
// that may take.
const (
	MaxCopy  = 256 << 20
	copyTime = time.Minute
)

// OpenCopy is NewFromFile for a file that may hang when it is read, see procfs.Local:
// the File is a copy in a temporary file without name, which cannot. It takes as much
// room as the file, at most MaxCopy; the error is ErrTooLarge for larger ones. f is closed.
func OpenCopy(f *os.File) (*File, error) {
	defer f.Close()
	copied, err := copyFile(f)
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", f.Name(), err)
	}
	return NewFromFile(copied)
}

func copyFile(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxCopy {
		return nil, fmt.Errorf("%d bytes: %w", info.Size(), ErrTooLarge)
	}
	copied, err := createIn([]string{"/var/tmp", os.TempDir()})
	if err != nil {
		return nil, err
	}
	if err = os.Remove(copied.Name()); err == nil {
		err = copyExactly(copied, &hurried{f, time.Now().Add(copyTime)}, info.Size())
	}
	if err != nil {
		copied.Close()
		return nil, err
	}
	return copied, nil
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
