package process

import (
	"cmp"
	"debug/elf"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Some programs move their text to huge pages: they copy it to memory outside the file, and map that memory over the
// mapping of the file (iodlr, PHP's opcache.huge_code_pages, Node's --use-largepages, libhugetlbfs). Memory in place of
// a file's text that has the same bytes counts as the file's text. The kernel reports the memory, if at all, when it is
// mapped, before the bytes are copied. Until the bytes have been compared, the memory is in doubt and its code is
// unknown.

const (
	// movedChunk is how many bytes are compared at a time, and movedStep is the distance between chunks, unless that
	// takes too many chunks.
	movedChunk = 128
	movedStep  = 16 << 10
	// maxMovedChunks bounds the chunks that are read to compare one segment.
	maxMovedChunks = 1024
	// movedAlike: of each movedAlike bytes of a chunk, three must be equal. Programs patch their code, for example for
	// tracing.
	movedAlike = 4
)

// minDoubtPause is the shortest pause between two comparisons of memory in doubt with the file's text. After maxDoubts
// comparisons without success, the memory counts as something else.
const (
	minDoubtPause = 10 * time.Millisecond
	maxDoubts     = 7
)

// doubts counts the attempts to find a process's text in memory that is in place of it.
type doubts struct {
	scans int           // scans that did not find the bytes of the file there
	pause time.Duration // until the next scan
}

// again reports whether it is time for the next scan.
func (d *doubts) again(scanned time.Time) bool { return time.Since(scanned) >= d.pause }

// noteDoubt notes a scan of a process's mappings, with memory in doubt or without. It reports whether the memory counts
// as something else from now on.
func (d *doubts) noteDoubt(inDoubt bool) (end bool) {
	if !inDoubt {
		d.pause = 0
		return false
	}
	d.scans++
	d.pause = max(minDoubtPause, 2*d.pause)
	return d.scans >= maxDoubts
}

// hasDoubts reports whether some of the mappings may be moved text.
func hasDoubts(all []located) bool {
	return slices.ContainsFunc(all, func(m located) bool { return m.doubt })
}

// mayBeMoved reports whether a mapping may be a copy of text: it is memory, even if the kernel reports a file for it.
func mayBeMoved(m *procfs.Mapping, e *Executable) bool {
	if m.Inode == 0 {
		return m.Path == "" || m.Path == "//anon" || strings.HasPrefix(m.Path, "[anon:")
	}
	return e == nil || e.Err != nil || m.Memfd() || m.Path == "/dev/zero" || m.Path == "/anon_hugepage" ||
		strings.HasPrefix(m.Path, "/SYSV")
}

// isText reports whether a mapping is of the text of an ELF file.
func (m *mapping) isText() bool {
	return m.exe != nil && m.exe.image.Load().elf != nil && m.exe.Path != procfs.VDSO
}

// maxOverText bounds the mappings that are searched for the text that new memory is mapped over.
const maxOverText = 64

// overText returns the mapping of a file's text that a new mapping overlaps, or nil if there is none.
func (p *Process) overText(m *procfs.Mapping) *mapping {
	at, _ := slices.BinarySearchFunc(p.mappings, m.Start, func(old mapping, start uint64) int {
		return cmp.Compare(old.end, start+1)
	})
	for _, some := range []mappings{p.added[max(0, len(p.added)-maxOverText):], p.mappings[at:]} {
		for i := range some[:min(len(some), maxOverText)] {
			if old := &some[i]; old.start < m.End && old.end > m.Start && old.isText() {
				return old
			}
		}
	}
	return nil
}

// inDoubt cuts a new mapping that overlaps a file's text. The parts in place of text are in doubt. inDoubt then takes
// over m's reference. It returns nil for all other mappings.
func (s *state) inDoubt(p *Process, m located) []located {
	if !mayBeMoved(&m.Mapping, m.exe) || p.doubts.scans >= maxDoubts {
		return nil
	}
	over := p.overText(&m.Mapping)
	if over == nil {
		return nil
	}
	e := over.exe
	of := procfs.Mapping{Dev: e.key.dev, Inode: e.key.inode, Path: e.Path}
	pieces := cutText(e.image.Load().elf, over.bias, &of, &m, e)
	for i := range pieces {
		pieces[i].doubt = pieces[i].exe == e
		s.refs.keepExecutable(pieces[i].exe)
	}
	if pieces != nil {
		s.refs.release(m.exe)
	}
	return pieces
}

// settle makes mappings in doubt count as something else than text of a file.
func (s *state) settle(all []located) {
	for i, m := range all {
		if m.doubt {
			s.refs.release(m.exe)
			all[i] = located{Mapping: procfs.Mapping{Start: m.Start, End: m.End, Perms: m.Perms}}
		}
	}
}

// findMovedText finds memory that is in place of a file's text and has its bytes, and turns it into mappings of the
// file. all are the executable mappings of a process, maps those and the other mappings of files, sorted.
func (t *Tracker) findMovedText(pid uint32, all []located, maps []procfs.Mapping) []located {
	if !slices.ContainsFunc(all, func(m located) bool { return mayBeMoved(&m.Mapping, m.exe) }) {
		return all
	}
	s := textSearch{tracker: t, pid: pid, all: all, maps: maps}
	out := make([]located, 0, len(all))
	for _, m := range all {
		if mayBeMoved(&m.Mapping, m.exe) {
			out = s.addPieces(out, m)
		} else {
			out = append(out, m)
		}
	}
	return out
}

// textSearch looks for moved text in one process.
type textSearch struct {
	tracker *Tracker
	pid     uint32
	all     []located        // executable mappings
	maps    []procfs.Mapping // executable mappings and mappings of files, sorted
}

// addPieces adds a mapping of memory to out. The parts that are a file's text become mappings of the file.
func (s *textSearch) addPieces(out []located, m located) []located {
	for _, of := range s.neighbours(&m.Mapping) {
		if of.Inode == m.Inode && of.Dev == m.Dev {
			continue // a file that is mapped in parts
		}
		e := s.executable(of, &m.Mapping)
		if e == nil {
			continue
		}
		pieces := s.piecesOf(e, of, &m)
		s.tracker.exes.release(e)
		if pieces == nil {
			continue
		}
		for i := range pieces {
			s.tracker.exes.keepExecutable(pieces[i].exe)
		}
		s.tracker.exes.release(m.exe)
		return append(out, pieces...)
	}
	return append(out, m)
}

// neighbours returns the nearest file mappings below and above a mapping. If the mapping is a file's text, they are the
// rest of that file.
func (s *textSearch) neighbours(m *procfs.Mapping) (found []*procfs.Mapping) {
	at, _ := slices.BinarySearchFunc(s.maps, m.Start, func(o procfs.Mapping, start uint64) int {
		return cmp.Compare(o.Start, start)
	})
	isFile := func(o *procfs.Mapping) bool { return o.HasFile() && !mayBeMoved(o, &Executable{}) }
	for i := at - 1; i >= 0; i-- {
		if isFile(&s.maps[i]) {
			found = append(found, &s.maps[i])
			break
		}
	}
	for i := at; i < len(s.maps); i++ {
		if s.maps[i].Start >= m.End && isFile(&s.maps[i]) {
			return append(found, &s.maps[i])
		}
	}
	return found
}

// executable returns the executable of a mapping, with a new reference, or nil if there is none. It does not open files
// that are mapped only for their data. text may be moved text of the file.
func (s *textSearch) executable(of, text *procfs.Mapping) *Executable {
	for i := range s.all {
		if m := &s.all[i]; m.exe != nil && m.Inode == of.Inode && m.Dev == of.Dev {
			if m.exe.image.Load().elf == nil {
				return nil // it is mapped executable, and no ELF file
			}
			s.tracker.exes.keepExecutable(m.exe)
			return m.exe
		}
	}
	if !s.beginsAsELF(text.Start) && !s.beginsAsELF(s.begin(of)) {
		return nil
	}
	e, _ := s.tracker.exes.getExecutable(clock.Monotonic(), s.pid, *of)
	if e != nil && (e.Err != nil || e.image.Load().elf == nil) {
		s.tracker.exes.release(e)
		return nil
	}
	return e
}

// begin returns the address where the start of a file is mapped, if it is.
func (s *textSearch) begin(of *procfs.Mapping) uint64 {
	first := of
	for i := range s.maps {
		if m := &s.maps[i]; m.Inode == of.Inode && m.Dev == of.Dev && m.Start < first.Start {
			first = m
		}
	}
	return first.Start - first.Offset
}

// beginsAsELF reports whether the memory at addr starts with the magic number of ELF files.
func (s *textSearch) beginsAsELF(addr uint64) bool {
	var magic [len(elf.ELFMAG)]byte
	_, err := s.tracker.memory(s.pid).ReadAt(magic[:], int64(addr))
	return err == nil && string(magic[:]) == elf.ELFMAG
}

// piecesOf cuts a mapping of memory. The parts in place of a file's text become mappings of the file, in doubt if their
// bytes differ; the rest does not change. It returns nil if no part is in place of text. of is another mapping of the
// file.
func (s *textSearch) piecesOf(e *Executable, of *procfs.Mapping, m *located) (best []located) {
	file := e.image.Load().elf
	var biases []uint64
	for i := range s.maps {
		o := &s.maps[i]
		if o.Inode != of.Inode || o.Dev != of.Dev || o.Perms&procfs.Exec != 0 {
			continue // text alone may be mapped once more, as V8's builtins are next to the code that it makes
		}
		if bias, ok := file.Bias(o.Start, o.End, o.Offset); ok && !slices.Contains(biases, bias) {
			biases = append(biases, bias)
		}
	}
	for _, bias := range biases {
		pieces := cutText(file, bias, of, m, e)
		if pieces == nil {
			continue
		}
		for i := range pieces {
			p := &pieces[i]
			p.doubt = p.exe == e && !s.equal(file, bias, p.Start, p.End)
		}
		if best = pieces; !hasDoubts(pieces) {
			break
		}
	}
	return best
}

// cutText cuts a mapping into the parts in place of a file's text, given the load bias, and the rest. It returns nil if
// no part is in place of text.
func cutText(file *elffile.File, bias uint64, of *procfs.Mapping, m *located, e *Executable) (pieces []located) {
	page := uint64(os.Getpagesize())
	rest := *m
	text := slices.Clone(file.TextSegments())
	slices.SortFunc(text, func(a, b elffile.Segment) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	found := false
	for _, seg := range text {
		start := seg.Vaddr &^ (page - 1)
		low := max(rest.Start, start+bias)
		high := min(rest.End, (seg.Vaddr+seg.Filesz+page-1)&^(page-1)+bias)
		if seg.Vaddr+seg.Filesz < seg.Vaddr || start+bias < bias || low >= high {
			continue
		}
		found = true
		if low > rest.Start {
			before := rest
			before.End = low
			pieces = append(pieces, before)
		}
		piece := procfs.Mapping{
			Start: low, End: high, Offset: seg.Offset&^(page-1) + (low - bias - start), Perms: m.Perms,
			Dev: of.Dev, Inode: of.Inode, Generation: of.Generation, Path: of.Path, Deleted: of.Deleted,
		}
		pieces = append(pieces, located{Mapping: piece, exe: e})
		rest.Offset += high - rest.Start
		rest.Start = high
	}
	if !found {
		return nil
	}
	if rest.Start < rest.End {
		pieces = append(pieces, rest)
	}
	return pieces
}

// equal reports whether the memory of the process at [start, end) has the bytes of the file, as far as it has any.
func (s *textSearch) equal(file *elffile.File, bias, start, end uint64) bool {
	for _, seg := range file.TextSegments() { // the first and last page may have bytes of other segments, or none
		if low := seg.Vaddr + bias; low < end && low+seg.Filesz > start {
			start, end = max(start, low), min(end, low+seg.Filesz)
			break
		}
	}
	if end-start < movedChunk {
		return false
	}
	step := max(movedStep, (end-start)/maxMovedChunks)
	var addrs []uint64
	for addr := start; addr+movedChunk < end && len(addrs) < maxMovedChunks; addr += step {
		addrs = append(addrs, addr)
	}
	addrs = append(addrs, end-movedChunk)
	is := make([]byte, movedChunk*len(addrs))
	if done, err := s.tracker.memory(s.pid).ReadEach(addrs, movedChunk, is); err != nil || done < len(addrs) {
		return false
	}
	var want [movedChunk]byte
	meaning := false
	for i, addr := range addrs {
		if file.ReadVaddr(want[:], addr-bias) != nil {
			return false
		}
		alike := 0
		for n, b := range is[i*movedChunk:][:movedChunk] {
			if b == want[n] {
				alike++
			}
			meaning = meaning || b != want[0]
		}
		if alike*movedAlike < 3*movedChunk {
			return false
		}
	}
	return meaning
}
