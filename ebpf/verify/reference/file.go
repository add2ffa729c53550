package reference

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// File is an ELF file that processes have mapped.
type File struct {
	Path string // as seen by the process that mapped it

	source io.ReaderAt
	file   *os.File // kept open, so that its inode is not reused; nil for the vdso
	used   bool     // mapped at the last sweep

	loaded   bool
	err      error // error of load
	elf      *elf.File
	frames   []*frames
	found    map[uint64]*found
	goStacks map[string][][2]uint64 // address ranges of Go's runtime by kind, see goFunctions
	stubs    [][2]uint64            // address ranges of procedure linkage tables whose entries do not touch the stack
}

// frames is a section of call frame information, with its FDEs by chunk of text.
type frames struct {
	section *section
	fdes    map[uint64][]fde
}

// chunk is log2 of the size of a chunk of text, and longest the maximum range of an FDE, in bytes.
const (
	chunk   = 14
	longest = 1 << 32
)

func newFrames(s *section) *frames {
	out := &frames{section: s, fdes: map[uint64][]fde{}}
	all, _ := s.entries() // unreadable entries have no rules, and show as no_cfi
	for _, f := range all {
		if f.end <= f.start || f.end-f.start > longest {
			continue
		}
		for n := f.start >> chunk; n <= (f.end-1)>>chunk; n++ {
			out.fdes[n] = append(out.fdes[n], f)
		}
	}
	return out
}

// findFDE returns the first FDE that covers an ELF virtual address, or nil if there is none.
func (f *frames) findFDE(vaddr uint64) *fde {
	all := f.fdes[vaddr>>chunk]
	for i := range all {
		if vaddr >= all[i].start && vaddr < all[i].end {
			return &all[i]
		}
	}
	return nil
}

// found is the result of a lookup for one address.
type found struct {
	row *row
	cie *cie
	end End
	err error
}

// Stat returns the information about the file, with its device and inode. It returns an error for the vdso.
func (f *File) Stat() (os.FileInfo, error) {
	if f.file == nil {
		return nil, errors.New("the vdso is no file")
	}
	return f.file.Stat()
}

// Digest returns a hash of the program headers and the executable segments. Two files with the same hash have the same
// code at the same addresses.
func (f *File) Digest() ([sha256.Size]byte, error) {
	return Digest(f.source)
}

// Digest is like File.Digest, for a file that the caller has opened.
func Digest(source io.ReaderAt) (sum [sha256.Size]byte, err error) {
	file, err := elf.NewFile(source)
	if err != nil {
		return sum, err
	}
	hash := sha256.New()
	for _, p := range file.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		fmt.Fprintln(hash, p.Off, p.Vaddr, p.Filesz, p.Flags)
		if p.Flags&elf.PF_X != 0 {
			if _, err := io.Copy(hash, p.Open()); err != nil {
				return sum, err
			}
		}
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}

// ReadAt implements io.ReaderAt for the contents of the file.
func (f *File) ReadAt(b []byte, off int64) (int, error) { return f.source.ReadAt(b, off) }

func (f *File) close() {
	if f.file != nil {
		f.file.Close()
	}
}

// loadOnce reads headers and call frame information at its first call.
func (f *File) loadOnce() error {
	if !f.loaded {
		f.loaded, f.found = true, map[uint64]*found{}
		if f.err = f.read(); f.err != nil {
			f.err = fmt.Errorf("%s: %w", f.Path, f.err)
		}
	}
	return f.err
}

func (f *File) read() (err error) {
	if f.elf, err = elf.NewFile(f.source); err != nil {
		return err
	}
	if f.elf.Class != elf.ELFCLASS64 || f.elf.ByteOrder != binary.LittleEndian {
		return errors.New("it is not of a 64-bit little-endian machine")
	}
	if err := f.readFrames(); err != nil {
		return err
	}
	f.readStubs()
	f.goStacks = goStacks(f.elf)
	return nil
}

// readFrames reads .eh_frame and .debug_frame. For an address in both, .eh_frame counts.
func (f *File) readFrames() error {
	for _, name := range []string{".eh_frame", ".debug_frame"} {
		if s := f.elf.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			data, err := s.Data()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			f.frames = append(f.frames, newFrames(&section{data: data, addr: s.Addr, debug: name == ".debug_frame"}))
		}
	}
	if len(f.elf.Sections) == 0 {
		s, err := f.sectionless()
		if err != nil {
			return fmt.Errorf("find .eh_frame without section headers: %w", err)
		}
		if s != nil {
			f.frames = append(f.frames, newFrames(s))
		}
	}
	return nil
}

// sectionless finds .eh_frame in a file without section headers, by the pointer in .eh_frame_hdr (LSB 5.0, 10.6.2),
// which has a program header. The section extends to the end of its segment, or to the zero that ends it.
func (f *File) sectionless() (*section, error) {
	for _, p := range f.elf.Progs {
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		head := make([]byte, p.Filesz)
		if _, err := p.ReadAt(head, 0); err != nil {
			return nil, err
		}
		header := section{data: head, addr: p.Vaddr}
		c := &cursor{data: head}
		version, encoding := c.unsigned(1), byte(c.unsigned(1))
		c.bytes(2) // encodings of the search table, which this package does not use
		addr := header.pointer(c, encoding)
		if version != 1 || c.err != nil {
			return nil, fmt.Errorf("version %d, %w", version, c.err)
		}
		for _, load := range f.elf.Progs {
			if load.Type != elf.PT_LOAD || addr < load.Vaddr || addr-load.Vaddr >= load.Filesz {
				continue
			}
			data := make([]byte, load.Filesz-(addr-load.Vaddr))
			if _, err := load.ReadAt(data, int64(addr-load.Vaddr)); err != nil {
				return nil, err
			}
			s := &section{data: data, addr: addr}
			s.data = data[:s.terminated()]
			return s, nil
		}
	}
	return nil, nil
}

// terminated returns the number of bytes before the entry of length zero.
func (s *section) terminated() int {
	c := &cursor{data: s.data}
	for !c.done() {
		at := c.at
		length := c.unsigned(4)
		if length == 0xffffffff {
			length = c.unsigned(8)
		}
		if length == 0 {
			return at
		}
		c.bytes(length)
	}
	return min(c.at, len(s.data))
}

// readStubs records the linkage tables whose entries are only a jump, so that the return address is always on top of
// the stack (System V psABI for x86-64, 5.2 and B.3: .plt.sec, .plt.got). Not all linkers write call frame information
// for these tables.
func (f *File) readStubs() {
	if f.elf.Machine != elf.EM_X86_64 {
		return
	}
	for _, s := range f.elf.Sections {
		if s.Name == ".plt.sec" || s.Name == ".plt.got" {
			f.stubs = append(f.stubs, [2]uint64{s.Addr, s.Addr + s.Size})
		}
	}
}

// vaddr returns the ELF virtual address for an offset of the file in an executable segment or, if there is none, in the
// whole pages that such a segment is mapped with.
func (f *File) vaddr(offset uint64) (uint64, bool) {
	page := uint64(os.Getpagesize())
	for _, slack := range []uint64{0, page} {
		for _, p := range f.elf.Progs {
			from, to := p.Off, p.Off+p.Filesz
			if slack > 0 {
				from, to = from&^(page-1), (to+page-1)&^(page-1)
			}
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && offset >= from && offset < to {
				return p.Vaddr + offset - p.Off, true
			}
		}
	}
	return 0, false
}

// rules returns the rules of the file for an ELF virtual address.
func (f *File) rules(vaddr uint64) *found {
	if answer := f.found[vaddr]; answer != nil {
		return answer
	}
	answer := f.search(vaddr)
	f.found[vaddr] = answer
	return answer
}

func (f *File) search(vaddr uint64) *found {
	switch {
	case within(f.goStacks[goRoots], vaddr):
		return &found{end: GoRoot}
	case within(f.goStacks[goSwitches], vaddr):
		return &found{end: GoOtherStack}
	}
	for _, frames := range f.frames {
		if entry := frames.findFDE(vaddr); entry != nil {
			return f.rowAt(frames.section, entry, vaddr)
		}
	}
	if within(f.stubs, vaddr) {
		return &found{row: jumpRow(), cie: &cie{returnRegister: 16}}
	}
	return &found{end: NoCFI}
}

func (f *File) rowAt(s *section, entry *fde, vaddr uint64) *found {
	rows, err := s.rowsOf(entry)
	if err != nil {
		return &found{end: BadCFI, err: fmt.Errorf("%s: FDE at %#x: %w", f.Path, entry.offset, err)}
	}
	last := &rows[0]
	for i := range rows {
		if rows[i].start <= vaddr {
			last = &rows[i]
		}
	}
	return &found{row: last, cie: entry.cie}
}

// jumpRow returns the rules of x86-64 at the entry of a function.
func jumpRow() *row {
	return &row{cfa: rule{kind: inRegister, register: 7, offset: 8},
		registers: map[uint64]rule{16: {kind: atOffset, offset: -8}}}
}

func within(ranges [][2]uint64, vaddr uint64) bool {
	for _, r := range ranges {
		if vaddr >= r[0] && vaddr < r[1] {
			return true
		}
	}
	return false
}

// vdsoFile reads the vdso from the memory of this process. It is the same in all processes.
func vdsoFile() *File {
	f := &File{Path: vdsoPath, loaded: true}
	maps, err := readMaps(os.Getpid())
	if err == nil {
		f.err = errors.New("this process has none")
	}
	for _, m := range maps {
		if !strings.HasPrefix(m.path, vdsoPath) {
			continue
		}
		image := make([]byte, m.end-m.start)
		mem, err := os.Open("/proc/self/mem")
		if err == nil {
			_, err = mem.ReadAt(image, int64(m.start))
			mem.Close()
		}
		if err == nil {
			f.source, f.loaded = bytes.NewReader(image), false
		}
		f.err = err
	}
	return f
}
