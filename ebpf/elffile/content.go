package elffile

import (
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
)

// ErrChanged says that a file was written to after it was opened.
var ErrChanged = errors.New("the file was written to after it was opened")

// Fd returns the descriptor of the open file, -1 if the image is no file. It is the
// File's and ends with it.
func (f *File) Fd() int {
	file, ok := f.r.(*os.File)
	if !ok {
		return -1
	}
	return int(file.Fd())
}

// Shape is the same for two files whose build ID, type, machine, entry point and
// program headers are equal. It is not readable, and costs no reading of segments.
func (f *File) Shape() string {
	h := sha256.New()
	fmt.Fprintln(h, f.BuildID(), f.elf.FileHeader.Class, f.elf.Machine, f.elf.Type, f.elf.Entry)
	for _, p := range f.elf.Progs {
		fmt.Fprintln(h, p.Type, p.Flags, p.Off, p.Vaddr, p.Paddr, p.Filesz, p.Memsz, p.Align)
	}
	return string(h.Sum(nil))
}

// Sum is a SHA-256; zero stands for nothing.
type Sum [sha256.Size]byte

// Content says whether files of one Shape are equal.
type Content struct {
	Code    Sum // of what is loaded: the same code at the same addresses
	Rows    Sum // and of all else that unwind rows come from: .debug_frame, and where loaded sections lie
	Symbols Sum // of the full symbol table, if there is one
	Debug   Sum // of DWARF data
	Links   Sum // of what else leads to names: symbols in .gnu_debugdata, names of other files
}

// NamesOf reports whether what names the code of a file with content c may name that of
// one with content o: nothing there says anything else.
func (c *Content) NamesOf(o *Content) bool {
	none := Sum{}
	return c.Code == o.Code && (o.Symbols == none || o.Symbols == c.Symbols) &&
		(o.Debug == none || o.Debug == c.Debug) &&
		(o.Links == none || o.Links == c.Links || c.Symbols != none)
}

// MaxContent bounds the bytes that Content reads.
const MaxContent = 1 << 30

// Content reads all that an image is unwound and named by. What stripping changes in the
// ELF header does not count. The error is ErrTooLarge beyond MaxContent.
func (f *File) Content() (c Content, err error) {
	defer recoverAs(&err)
	d := digest{file: f, Hash: sha256.New(), left: MaxContent}
	for _, p := range f.elf.Progs {
		if p.Type == elf.PT_LOAD {
			d.add(p.Off, p.Filesz)
		}
	}
	d.Sum(c.Code[:0])
	for _, s := range f.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			fmt.Fprintf(d, "%q %d %d %d %d %d\n", s.Name, s.Type, s.Flags, s.Addr, s.Offset, s.Size)
		}
	}
	// Sections of call frame information are found by their headers, which may lead to
	// bytes that are not loaded.
	d.addSections(func(name string) bool {
		return slices.Contains([]string{".eh_frame", ".eh_frame_hdr", ".debug_frame", ".zdebug_frame"}, name)
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

// digest takes parts of a file until one cannot be read.
type digest struct {
	file *File
	hash.Hash
	left uint64 // bytes that may be read yet
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
			d.add(s.Offset, s.FileSize)
		}
	}
	return found
}

// add adds size bytes of the file from off on.
func (d *digest) add(off, size uint64) {
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

// copyContent writes size bytes from off on.
func copyContent(w io.Writer, r io.ReaderAt, off, size uint64) error {
	buf := make([]byte, min(size, contentChunk))
	for size > 0 {
		b := buf[:min(size, contentChunk)]
		if err := readFullAt(r, b, off); err != nil {
			return err
		}
		w.Write(b) // a hash takes all
		off, size = off+uint64(len(b)), size-uint64(len(b))
	}
	return nil
}

// contentChunk is how much is read at once.
const contentChunk = 256 << 10
