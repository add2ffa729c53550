package elffile

import (
	"errors"
	"fmt"
	"os"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Reopen opens the same image again, even if its path was deleted or replaced. The caller closes
// it. The error is ErrChanged if the file was modified.
func (f *File) Reopen() (*File, error) {
	file, ok := f.r.(*os.File)
	if !ok {
		return newFile(f.r, f.size)
	}
	opened, err := procfs.OpenRegular(fmt.Sprintf("/proc/self/fd/%d", file.Fd())) // /proc is local
	if err != nil {
		return nil, fmt.Errorf("reopen %s: %w", file.Name(), err)
	}
	again, err := NewFromFile(opened)
	if err == nil && f.Changed() {
		again.Close()
		err = ErrChanged
	}
	if err != nil {
		return nil, fmt.Errorf("reopen %s: %w", file.Name(), err)
	}
	return again, nil
}

// Stat returns the FileInfo of the opened file.
func (f *File) Stat() (os.FileInfo, error) {
	file, ok := f.r.(procfs.File)
	if !ok {
		return nil, errors.New("this image is in no file")
	}
	return file.Stat()
}

// ReadAt reads the bytes of the file, as io.ReaderAt does.
func (f *File) ReadAt(b []byte, off int64) (int, error) { return f.r.ReadAt(b, off) }
