package corefile

import (
	"cmp"
	"debug/elf"
	"errors"
	"slices"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// errUnreadable reports that memory is in neither the core nor a reliable file.
var errUnreadable = errors.New("memory is not in the core")

// mappedFile is a range of memory that a file was mapped to.
type mappedFile struct {
	start, end uint64
	offset     uint64 // in the file
	path       string // as the core has it
	from       string // the path from which it is read
	file       *file  // nil if it is not reliable
}

// memory is the memory of a process. It implements io.ReaderAt.
type memory struct {
	core   sized
	loads  []segment    // by vaddr
	files  []mappedFile // by start
	opened []*file
}

func newMemory(core sized, loads []segment) *memory {
	return &memory{core: core, loads: loads}
}

// ReadAt implements io.ReaderAt by address. If it cannot read all bytes, it returns an error; the n bytes before are
// valid.
func (m *memory) ReadAt(b []byte, addr int64) (n int, err error) {
	for n < len(b) {
		at := uint64(addr) + uint64(n)
		got := m.dumped(b[n:], at)
		if got == 0 {
			got = m.mapped(b[n:], at)
		}
		if got == 0 {
			return n, errUnreadable
		}
		n += got
	}
	return n, nil
}

// dumped reads the memory that the core has at an address, up to the first gap.
func (m *memory) dumped(b []byte, addr uint64) int {
	i, found := slices.BinarySearchFunc(m.loads, addr, func(s segment, addr uint64) int {
		return cmp.Compare(s.vaddr, addr)
	})
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	s := m.loads[i]
	at := addr - s.vaddr
	if has := min(s.filesz, s.memsz); at < has {
		b = b[:min(uint64(len(b)), has-at)]
		n, _ := m.core.ReadAt(b, int64(s.offset+at)) // a truncated core has less
		return n
	}
	return 0
}

// findFile returns the file that was mapped at an address.
func (m *memory) findFile(addr uint64) *mappedFile {
	i, found := slices.BinarySearchFunc(m.files, addr, func(f mappedFile, addr uint64) int {
		return cmp.Compare(f.start, addr)
	})
	if !found {
		i--
	}
	if i < 0 || addr >= m.files[i].end {
		return nil
	}
	return &m.files[i]
}

// mapped reads the memory that a mapped file has at an address, up to the first gap. The last page of a file ends with
// zeros.
func (m *memory) mapped(b []byte, addr uint64) int {
	f := m.findFile(addr)
	if f == nil || f.file == nil {
		return 0
	}
	b = b[:min(uint64(len(b)), f.end-addr)]
	at := f.offset + (addr - f.start)
	n, _ := f.file.ReadAt(b, int64(at)) // at the end of the file there is less
	const page = 4096
	if n == 0 && at%page != 0 && at < (f.file.size+page-1)&^(page-1) {
		n = int(min(uint64(len(b)), page-at%page))
		clear(b[:n])
	}
	return n
}

// openFiles opens the files that were mapped, and checks that they are unchanged. It passes the reasons against using a
// file to note.
func (m *memory) openFiles(files []mappedFile, open opener, note func(string, ...any)) {
	slices.SortStableFunc(files, func(a, b mappedFile) int { return cmp.Compare(a.start, b.start) })
	last := uint64(0)
	files = slices.DeleteFunc(files, func(f mappedFile) bool { // a malformed core's may overlap
		overlaps := f.start < last
		last = max(last, f.end)
		return overlaps
	})
	m.files = files
	same := map[string][]*mappedFile{} // ranges of each file
	var paths []string                 // of the files, by address
	for i := range files {
		f := &files[i]
		if same[f.from] == nil {
			paths = append(paths, f.from)
		}
		same[f.from] = append(same[f.from], f)
	}
	if len(paths) > maxOpen {
		note("%d files were mapped: %d of them are not read", len(paths), len(paths)-maxOpen)
		paths = paths[:maxOpen]
	}
	for _, path := range paths {
		opened := m.check(path, same[path], open, note)
		if opened == nil {
			continue
		}
		m.opened = append(m.opened, opened)
		for _, f := range same[path] {
			f.file = opened
		}
	}
}

// mayHoldCode reports whether a range of a file may be executable. If the core has no segment of the range, the file
// decides: gdb leaves out memory that is in the file.
func (m *memory) mayHoldCode(f *mappedFile) bool {
	i := m.after(f.start)
	if i == len(m.loads) || m.loads[i].vaddr >= f.end {
		return f.file == nil || f.file.hasCode(f.offset, f.end-f.start)
	}
	for ; i < len(m.loads) && m.loads[i].vaddr < f.end; i++ {
		if m.loads[i].flags&elf.PF_X != 0 {
			return true
		}
	}
	return false
}

// after returns the number of the first segment that ends after an address.
func (m *memory) after(start uint64) int {
	i, _ := slices.BinarySearchFunc(m.loads, start, func(s segment, addr uint64) int {
		if s.vaddr+s.memsz <= addr {
			return -1
		}
		return 1
	})
	return i
}

// split divides an executable mapping into pieces, each of one file or of none.
func (m *memory) split(all procfs.Mapping) (out []procfs.Mapping) {
	for all.Start < all.End {
		piece := all
		i, _ := slices.BinarySearchFunc(m.files, all.Start, func(f mappedFile, addr uint64) int {
			if f.end <= addr {
				return -1
			}
			return 1
		})
		switch {
		case i == len(m.files) || m.files[i].start >= all.End: // no file
		case m.files[i].start > all.Start:
			piece.End = m.files[i].start
		default:
			f := &m.files[i]
			piece.End = min(all.End, f.end)
			if f.file != nil {
				piece.Offset = f.offset + (piece.Start - f.start)
				piece.Path, piece.Dev, piece.Inode = f.from, f.file.dev, f.file.inode
			}
		}
		out = append(out, piece)
		all.Start = piece.End
	}
	return out
}

// PathAt returns the path, in the core, of the file that was mapped at an address, "" if there was none.
func (c *Core) PathAt(addr uint64) string {
	if f := c.memory.findFile(addr); f != nil {
		return f.path
	}
	return ""
}

func (m *memory) close() error {
	var errs []error
	for _, f := range m.opened {
		if f.closer != nil {
			errs = append(errs, f.closer.Close())
		}
	}
	return errors.Join(errs...)
}
