// Package outfile writes files that commands make: a file appears whole or not at all, and
// whether it can be written is known before the work begins.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file in the making.
type File struct {
	path string
	out  *os.File // the file itself, or one next to it that takes its place
	size int64
	temp bool

	beside string // the name of out, if that takes the place of path later
}

// Create begins a file. It replaces one that is there when it is kept; what is no regular file,
// such as a pipe, is written to at once. Either Keep or Discard it.
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

// cause leaves out the name of the file next to it.
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

// Size returns how many bytes were written.
func (f *File) Size() int64 { return f.size }

// Keep puts the file in its place.
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

// Abandon removes what was written so far, and reports whether that kept the file from its place. It is for the end of
// the process: it may be called whatever another goroutine does with the File, which must not be used after it.
func (f *File) Abandon() bool {
	return f.beside != "" && os.Remove(f.beside) == nil
}

// Discard leaves everything as it was. After Keep it does nothing.
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
