// Package outfile writes the output of commands. A file appears completely or not at all, and permission to write it is
// checked before the work starts.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file that is being written.
type File struct {
	path string
	out  *os.File // the file itself, or a temporary file next to it
	size int64
	temp bool

	beside string // the name of a temporary file that replaces path later
}

// Create starts a file. Keep replaces an existing file. Data for a file that is not regular, such as a pipe, is written
// directly. The caller must call either Keep or Discard.
func Create(path string) (*File, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder", path)
	}
	if err == nil && !info.Mode().IsRegular() {
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{path: path, out: out}, nil
	}
	mode := fs.FileMode(0o644)
	if err == nil {
		mode = info.Mode().Perm()
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".headwater-*")
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, cause(err))
	}
	if err := out.Chmod(mode); err != nil {
		return nil, errors.Join(err, (&File{out: out, temp: true}).Discard())
	}
	return &File{path: path, out: out, temp: true, beside: out.Name()}, nil
}

// cause removes the name of the temporary file from an error.
func cause(err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Write implements io.Writer.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.out.Write(b)
	f.size += int64(n)
	return n, err
}

// Size returns the number of bytes written.
func (f *File) Size() int64 { return f.size }

// Keep moves the file to its final path.
func (f *File) Keep() error {
	if err := f.out.Close(); err != nil {
		return errors.Join(err, f.remove())
	}
	if !f.temp {
		return nil
	}
	if err := os.Rename(f.out.Name(), f.path); err != nil {
		return errors.Join(err, f.remove())
	}
	f.temp = false
	return nil
}

// Abandon removes the temporary file, and reports whether that has prevented the file from appearing. It is called
// right before the process exits, also while another goroutine uses the File. The File must not be used afterwards.
func (f *File) Abandon() bool {
	return f.beside != "" && os.Remove(f.beside) == nil
}

// Discard removes the data written so far, and leaves an existing file unchanged. After Keep it has no effect.
func (f *File) Discard() error {
	if !f.temp {
		return nil
	}
	return errors.Join(f.out.Close(), f.remove())
}

func (f *File) remove() error {
	if !f.temp {
		return nil
	}
	f.temp = false
	return os.Remove(f.out.Name())
}

var _ io.Writer = (*File)(nil)
