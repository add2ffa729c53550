package process

import (
	"cmp"
	"os"
	"slices"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// mapping is an executable mapping of one process.
type mapping struct {
	start, end uint64
	bias       uint64
	exe        *Executable // nil: no file, or none that can be had
	remote     bool        // of a file that may hang, and so may who reads this memory
	doubt      bool        // memory at the place of exe's text: it is not known yet whether it has that
}

func newMapping(m procfs.Mapping, e *Executable) mapping {
	out := mapping{start: m.Start, end: m.End, exe: e, remote: e != nil && e.remote}
	if e == nil {
		return out
	}
	file := e.image.Load().elf
	if file == nil {
		// Where the file places its text is not known; offsets in the file are the same in each process.
		out.bias = m.Start - m.Offset
		if m.Perms&procfs.Shared != 0 && e.isNoELF() {
			out.exe, out.bias = nil, 0 // code that is written through another mapping of that memory, as .NET does: of no file
		}
		return out
	}
	if e.Path == procfs.VDSO {
		// The vdso is linked at 0 and mapped whole.
		out.bias = m.Start
		return out
	}
	bias, ok := file.Bias(m.Start, m.End, m.Offset)
	if !ok {
		// Not where the file says that text is: addresses cannot be trusted.
		out.exe = nil
	}
	out.bias = bias
	out.end = min(out.end, textEnd(out, file.TextSegments()))
	return out
}

// pending reports whether the file of m was not opened yet: nothing is known of its code.
func (m mapping) pending() bool { return m.exe != nil && m.exe.pending }

// hasPages reports whether there may be rows for m.
func (m mapping) hasPages() bool { return m.exe != nil && m.exe.image.Load().directory.Pages > 0 }

// textEnd returns where the last segment of text ends that a mapping holds a part
// of. The kernel maps a position-independent program whole, as its first segment
// is to be, and puts the other segments over that, of which it reports only those
// that are executable (Linux, fs/binfmt_elf.c, elf_map).
func textEnd(m mapping, segments []elffile.Segment) uint64 {
	page := uint64(os.Getpagesize())
	end := uint64(0)
	for _, s := range segments {
		if s.Vaddr+s.Memsz > m.start-m.bias && s.Vaddr < m.end-m.bias {
			end = max(end, (s.Vaddr+s.Memsz+page-1)&^(page-1)+m.bias)
		}
	}
	if end <= m.start {
		return m.end
	}
	return end
}

// forUnwinder is the mapping as the kernel side needs it.
func (m mapping) forUnwinder() unwind.Mapping {
	out := unwind.Mapping{Start: m.start, End: m.end}
	if m.exe == nil {
		return out
	}
	out.Bias, out.Exe = m.bias, m.exe.ID
	d := m.exe.image.Load().directory
	// Every page of the mapping must have its entry.
	if d.Holds(d.Page(m.start-m.bias)) && d.Holds(d.Page(m.end-1-m.bias)) {
		out.Directory = d
	}
	return out
}

// mappings are sorted by start and do not overlap.
type mappings []mapping

// find returns the mapping that holds addr, also one in doubt.
func (ms mappings) find(addr uint64) (mapping, bool) {
	i, found := slices.BinarySearchFunc(ms, addr, func(m mapping, addr uint64) int {
		switch {
		case m.end <= addr:
			return -1
		case m.start > addr:
			return 1
		}
		return 0
	})
	if !found {
		return mapping{}, false
	}
	return ms[i], true
}

// overlay adds mappings, sorted and not overlapping each other, which replace what
// was in their ranges. dropped gets what lost its place, and kept what is there
// once more because it was split. ms stays as it is.
func (ms mappings) overlay(added mappings, kept, dropped func(*Executable)) mappings {
	out := make(mappings, 0, len(ms)+2*len(added))
	for _, old := range ms {
		rest, pieces := old, 0
		for len(added) > 0 && added[0].start < rest.end {
			m := added[0]
			if m.end > rest.start && rest.start < m.start {
				left := rest
				left.end = m.start
				out = append(out, left)
				pieces++
			}
			if m.end >= rest.end {
				rest.start = rest.end // m may go on over the next ones
				break
			}
			out = append(out, m)
			added = added[1:]
			rest.start = max(rest.start, m.end)
		}
		if rest.start < rest.end {
			out = append(out, rest)
			pieces++
		}
		if pieces == 0 {
			dropped(old.exe)
		}
		for ; pieces > 1; pieces-- {
			kept(old.exe)
		}
	}
	return append(out, added...)
}

// disjoint sorts mappings and reports whether none overlaps another.
func (ms mappings) disjoint() bool {
	slices.SortFunc(ms, func(a, b mapping) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(ms); i++ {
		if ms[i-1].end > ms[i].start {
			return false
		}
	}
	return true
}
