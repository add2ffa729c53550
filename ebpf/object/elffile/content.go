package elffile

import (
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// ErrChanged says that a file was written to after it was opened.
var ErrChanged = errors.New("the file was written to after it was opened")

// Fd returns the descriptor of the open file, or -1 if the image is not a file. The File owns the
// descriptor.
func (f *File) Fd() int {
	file, ok := f.r.(*os.File)
	if !ok {
		return -1
	}
	return int(file.Fd())
}

// Shape returns a key that is equal for two files with the same build ID, type, machine, entry
// point and program headers. The key is not readable text. Shape does not read the segments.
func (f *File) Shape() string {
	h := sha256.New()
	fmt.Fprintln(h, f.BuildID(), f.elf.FileHeader.Class, f.elf.Machine, f.elf.Type, f.elf.Entry)
	for _, p := range f.elf.Progs {
		fmt.Fprintln(h, p.Type, p.Flags, p.Off, p.Vaddr, p.Paddr, p.Filesz, p.Memsz, p.Align)
	}
	return string(h.Sum(nil))
}

// Sum is a SHA-256; zero means that there are no such parts.
type Sum [sha256.Size]byte

// Content holds checksums that show whether two files of the same Shape are equal.
type Content struct {
	Code    Sum // of the loaded segments: the same code at the same addresses
	Rows    Sum // of Code, the headers of loaded sections and the call frame sections: all input of unwind rows
	Symbols Sum // of the full symbol table, if there is one
	Debug   Sum // of DWARF data
	Links   Sum // of other sources of names: symbols in .gnu_debugdata, names of other files
}

// NamesOf reports whether the names of a file with content c are valid for a file with content o:
// the code is equal, and o has no other source of names.
func (c *Content) NamesOf(o *Content) bool {
	none := Sum{}
	return c.Code == o.Code && (o.Symbols == none || o.Symbols == c.Symbols) &&
		(o.Debug == none || o.Debug == c.Debug) &&
		(o.Links == none || o.Links == c.Links || c.Symbols != none)
}

// MaxContent bounds the bytes that Content reads.
const MaxContent = 1 << 30

// Content reads all parts of an image that unwinding and symbolization use. It ignores the fields
// of the ELF header that stripping changes. The error is ErrTooLarge if the parts exceed
// MaxContent.
func (f *File) Content() (c Content, err error) {
	defer recoverAs(&err)
	d := digest{file: f, Hash: sha256.New(), left: MaxContent}
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_LOAD {
			d.addRange(p.Off, p.Filesz)
		}
	}
	d.Sum(c.Code[:0])
	for _, s := range f.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			fmt.Fprintf(d, "%q %d %d %d %d %d\n", s.Name, s.Type, s.Flags, s.Addr, s.Offset, s.Size)
		}
	}
	// The headers of call frame sections may lead to bytes that are not loaded.
	d.addSections(func(name string) bool {
		return name == ".eh_frame" || name == ".eh_frame_hdr" || isDebugFrame(name)
	})
	d.Sum(c.Rows[:0])
	c.Symbols = d.sumOf(func(name string) bool { return name == ".symtab" || name == ".strtab" })
	c.Debug = d.sumOf(func(name string) bool {
		return (strings.HasPrefix(name, ".debug_") || strings.HasPrefix(name, ".zdebug_")) &&
			!strings.HasSuffix(name, "_frame")
	})
	c.Links = d.sumOf(func(name string) bool { return strings.HasPrefix(name, ".gnu_debug") })
	return c, d.err
}

// DebugFrameSum returns the checksum of .debug_frame, zero if there is none. The error is as of Content.
func (f *File) DebugFrameSum() (Sum, error) {
	d := digest{file: f, Hash: sha256.New(), left: MaxContent}
	return d.sumOf(isDebugFrame), d.err
}

func isDebugFrame(name string) bool { return name == ".debug_frame" || name == ".zdebug_frame" }

// digest adds parts of a file to a hash until a part cannot be read.
type digest struct {
	file *File
	hash.Hash
	left uint64 // bytes that may still be read
	err  error
}

// sumOf returns the sum of some sections, zero if there are none.
func (d *digest) sumOf(wanted func(name string) bool) (sum Sum) {
	d.Reset()
	if d.addSections(wanted) {
		d.Sum(sum[:0])
	}
	return sum
}

// addSections adds sections as they are stored.
func (d *digest) addSections(wanted func(name string) bool) (found bool) {
	for _, s := range d.file.elf.Sections {
		if s.Type != elf.SHT_NOBITS && wanted(s.Name) {
			found = true
			fmt.Fprintf(d, "%q %d %d %d\n", s.Name, s.Type, s.Flags, s.FileSize)
			d.addRange(s.Offset, s.FileSize)
		}
	}
	return found
}

// addRange adds size bytes of the file, starting at off.
func (d *digest) addRange(off, size uint64) {
	switch {
	case d.err != nil:
		return
	case off > d.file.size || size > d.file.size-off:
		d.err = fmt.Errorf("%d bytes at offset %#x: %w", size, off, ErrTruncated)
		return
	case size > d.left:
		d.err = fmt.Errorf("more than %d bytes: %w", uint64(MaxContent), ErrTooLarge)
		return
	}
	d.left -= size
	if err := copyContent(d, &sectionlessReader{d.file.r}, off, size); err != nil {
		d.err = fmt.Errorf("%d bytes at offset %#x: %w", size, off, err)
	}
}

// copyContent writes size bytes of r, starting at off.
func copyContent(w io.Writer, r io.ReaderAt, off, size uint64) error {
	buf := make([]byte, min(size, contentChunk))
	for size > 0 {
		b := buf[:min(size, contentChunk)]
		if err := readFullAt(r, b, off); err != nil {
			return err
		}
		w.Write(b) // a hash accepts all bytes
		off, size = off+uint64(len(b)), size-uint64(len(b))
	}
	return nil
}

// contentChunk is the size of one read.
const contentChunk = 256 << 10
