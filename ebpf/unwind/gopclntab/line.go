package gopclntab

import (
	"bytes"
	"fmt"
	"strings"
)

// Frame is a function at an address, with its source location.
type Frame struct {
	Function  string // see Name
	File      string // path as passed to the compiler, "" if unknown
	StartLine int    // of Function's declaration; 0 if unknown, as before Go 1.20
	Line      int    // 0 if unknown
}

// MaxInlined bounds the depth of inlining.
const MaxInlined = 64

// Frames returns the functions at the ELF virtual address pc: the innermost first, then the
// functions into which it was inlined, each with the line of the call. It returns nil if the table
// has no function at pc. With an error it returns the frames that it could read; the last one is
// the function that contains the code.
//
// Inlined functions are available since Go 1.13, and in programs without sections since Go 1.16. In
// position-independent programs whose pointers are only in relocations, they are available since Go
// 1.18.
func (r *Reader) Frames(pc uint64) ([]Frame, error) {
	f, _, ok, err := r.Find(pc)
	if err != nil || !ok {
		return nil, err
	}
	name, err := r.Name(&f)
	if err != nil {
		return nil, err
	}
	frames, at, err := r.inlined(&f, pc)
	outer := Frame{Function: name, StartLine: max(int(f.line), 0)}
	if err == nil {
		outer.File, outer.Line, err = r.lineAt(&f, at)
	}
	if err != nil {
		err = fmt.Errorf("line of the function at %#x: %w", f.Entry, err)
	}
	return append(frames, outer), err
}

// lineAt returns the file and line of f's instruction at pc.
func (r *Reader) lineAt(f *Func, pc uint64) (file string, line int, err error) {
	number, ok, err := r.value(f, f.pcfile, pc)
	if err != nil || !ok || number < 0 {
		return "", 0, err
	}
	if file, err = r.fileName(f, uint32(number)); err != nil {
		return "", 0, err
	}
	value, ok, err := r.value(f, f.pcline, pc)
	if err != nil || !ok || value < 0 {
		return file, 0, err
	}
	return file, int(value), nil
}

// value returns the value of a value table for f's instruction at pc. ok is false if there is none.
func (r *Reader) value(f *Func, table uint32, pc uint64) (value int32, ok bool, err error) {
	err = r.values(f, table, func(start, end uint64, v int32) bool {
		if pc >= start && pc < end {
			value, ok = v, true
		}
		return pc >= end
	})
	return value, ok, err
}

// fileName returns the path of the file with that number in f's compilation unit. Before Go 1.16 file
// numbers are global to the program. The offset of the table of paths follows the index of
// functions.
func (r *Reader) fileName(f *Func, number uint32) (string, error) {
	t := r.t
	var at uint64
	if t.version == go12 {
		b, err := r.index.getBytes(t.funcs.start+uint64(t.count)*uint64(2*t.ptr)+uint64(t.ptr), 4)
		if err != nil {
			return "", err
		}
		at = t.header + uint64(t.order.Uint32(b)) + 4*uint64(number)
		if b, err = r.files.getBytes(at, 4); err != nil {
			return "", err
		}
		return r.readPath(t.header + uint64(t.order.Uint32(b)))
	}
	at = t.units.start + 4*(uint64(f.unit)+uint64(number))
	b, err := r.units.getBytes(at, 4)
	if err != nil {
		return "", err
	}
	offset := t.order.Uint32(b)
	if offset == 1<<32-1 { // the linker dropped the file
		return "", nil
	}
	return r.readPath(t.files.start + uint64(offset))
}

// maxPath bounds paths of source files.
const maxPath = 4096

func (r *Reader) readPath(at uint64) (string, error) {
	b, err := r.files.someBytes(at, maxPath)
	if err != nil {
		return "", err
	}
	end := bytes.IndexByte(b, 0)
	if end < 0 || end > maxPath {
		return "", ErrInvalid
	}
	return strings.ToValidUTF8(string(b[:end]), "\uFFFD"), nil
}
