package process

import (
	"cmp"
	"os"
	"slices"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// mapping is an executable mapping of one process.
type mapping struct {
	start, end uint64
	bias       uint64
	exe        *Executable // nil if there is no file, or it cannot be opened
	remote     bool        // the file may hang, and so may reads of this memory
	doubt      bool        // memory in place of exe's text; it is unknown yet whether it has the same bytes
}

// maxWritten bounds the files that noteWritten notes of a process.
const maxWritten = 64

// noteWritten notes the file of a mapping if it is no ELF file and the process can write code to the mapping, as .NET
// and SBCL do.
func (p *Process) noteWritten(m located) {
	if len(p.written) < maxWritten && m.Perms&(procfs.Shared|procfs.Write) != 0 && m.exe.isNoELF() &&
		!slices.Contains(p.written, fileOf(&m.Mapping)) {
		p.written = append(slices.Clip(p.written), fileOf(&m.Mapping))
	}
}

// mappingOf makes a mapping of the process. All memory of a file that noteWritten has noted is code in no file: SBCL
// takes away the permission to write to a page, and gives it back, at any time.
func (p *Process) mappingOf(m located) mapping {
	e := m.exe
	out := mapping{start: m.Start, end: m.End, exe: e, remote: e != nil && e.remote, doubt: m.doubt}
	if e == nil {
		return out
	}
	file := e.image.Load().elf
	if file == nil {
		// It is unknown where the file places its text. Offsets in the file are the same in each process.
		out.bias = m.Start - m.Offset
		if len(p.written) > 0 && e.isNoELF() && slices.Contains(p.written, fileOf(&m.Mapping)) {
			out.exe, out.bias = nil, 0
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
		// The file has no text here: its addresses cannot be trusted.
		out.exe = nil
	}
	out.bias = bias
	out.end = min(out.end, textEnd(out, file.TextSegments()))
	return out
}

// pending reports whether the file of m was not opened yet, so that its code is unknown.
func (m mapping) pending() bool { return m.exe != nil && m.exe.pending }

// hasPages reports whether there may be rows for m.
func (m mapping) hasPages() bool { return m.exe != nil && m.exe.image.Load().directory.Pages > 0 }

// textEnd returns the end of the last text segment that overlaps a mapping. The kernel maps a position-independent
// program whole, with the protection of its first segment, and then maps the other segments over that. It reports only
// the executable segments (Linux, fs/binfmt_elf.c, elf_map).
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

// forUnwinder returns the mapping in the form that the unwinder in the kernel needs.
func (m mapping) forUnwinder() unwind.Mapping {
	out := unwind.Mapping{Start: m.start, End: m.end}
	if m.exe == nil {
		return out
	}
	out.Bias, out.Exe = m.bias, m.exe.ID
	d := m.exe.image.Load().directory
	// Every page of the mapping must have an entry.
	if d.Holds(d.Page(m.start-m.bias)) && d.Holds(d.Page(m.end-1-m.bias)) {
		out.Directory = d
	}
	return out
}

// mappings are sorted by start and do not overlap.
type mappings []mapping

// findMapping returns the mapping that holds addr, even if it is in doubt.
func (ms mappings) findMapping(addr uint64) (mapping, bool) {
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

// overlay adds mappings, which are sorted and have no overlaps. They replace the parts of ms in their ranges. overlay
// calls dropped for each mapping that lost its whole range, and kept for each further piece of a mapping that was
// split. ms does not change.
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
				rest.start = rest.end // m may also cover the next mappings
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

// disjoint sorts mappings and reports whether they have no overlaps.
func (ms mappings) disjoint() bool {
	slices.SortFunc(ms, func(a, b mapping) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(ms); i++ {
		if ms[i-1].end > ms[i].start {
			return false
		}
	}
	return true
}
