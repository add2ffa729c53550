package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

// Process is what is known of one process.
type Process struct {
	PID  uint32
	comm string

	before  string // the name until renamed
	renamed uint64 // time, 0: never
	generations
	ended    uint64 // time, 0: it lives
	relative uint32 // PID of a process in the store that runs the same program, or 0

	mappings       mappings
	added          mappings     // in order of time, not yet among mappings
	last           reportedFile // of the last of them
	previous       []program    // those that it ran before, oldest first; dropped by reap
	execs          int          // programs that it has started
	attached       []*attachment
	code           []*JITCode      // of those; replaced, never changed
	interpretation *interpretation // nil: none

	scans    int           // readings of /proc that are under way
	reported []located     // reported since the first of them began
	scanned  time.Time     // when /proc was last read
	pause    time.Duration // until it may be read again

	ignored bool
	dirty   bool      // mappings differ from the store's
	pushed  time.Time // when the store got them last
}

// generations say which mappings a walk must not have gone by.
type generations struct {
	started    uint64 // time of the last exec, or fork, 0: before the Tracker
	generation uint32 // of the mappings when started
	replaced   change // the last time that another file came to a place that had one
}

// stale reports whether a walk at a time went by mappings that were not the process's any
// more.
func (g generations) stale(time uint64, generation uint32) bool {
	if generation == 0 {
		return false
	}
	return g.started != 0 && time >= g.started && generation < g.generation || g.replaced.after(time, generation)
}

// change is when mappings changed so that those of before are wrong.
type change struct {
	time       uint64 // 0: never
	generation uint32 // of the first mappings that the store got afterwards; 0: not yet
}

// after reports whether mappings of a generation are older than the change, though at
// that time it had happened.
func (c change) after(time uint64, generation uint32) bool {
	return c.time != 0 && time >= c.time && (c.generation == 0 || generation < c.generation)
}

// program is what a process ran until it executed another one.
type program struct {
	until          uint64 // time
	mappings       mappings
	code           []*JITCode
	interpretation *interpretation
}

// usualMappings are as many as most programs begin with: themselves, their loader, the vdso, the C library
// and two more.
const usualMappings = 6

// maxPrevious is how many programs of a process are remembered.
const maxPrevious = 64

// located is a mapping and the file that it is of.
type located struct {
	procfs.Mapping
	exe *Executable // with a reference; nil: no file, or none that can be had
}

// references counts who uses executables.
type references interface {
	keep(*Executable)
	release(*Executable)
}

// state is what is known of all processes. It is pure: it reads no file, asks no clock and
// takes no lock. An Event changes it, and returns the Commands that must be run because of
// it, each of which ends in another Event. The Tracker's mutex guards it.
type state struct {
	refs         references
	processes    map[uint32]*Process
	dirty        []*Process // the store is to get them
	removed      []uint32   // the store is to forget them
	ended        []*Process
	replaced     []*Process // with previous programs
	interpreting []*Process // that have interpreters to be asked
	generation   uint32     // of what the store got last
}

func newState(refs references) state {
	return state{refs: refs, processes: map[uint32]*Process{}}
}

// add makes a process known that has begun.
func (s *state) add(pid uint32) *Process {
	if old := s.processes[pid]; old != nil {
		s.remove(old)
	}
	p := &Process{PID: pid}
	s.processes[pid] = p
	return p
}

// remove forgets a process at once.
func (s *state) remove(p *Process) {
	s.mergeMappings(p)
	s.drop(p.mappings)
	p.mappings = nil
	s.dropPrevious(p, len(p.previous))
	if s.processes[p.PID] == p {
		delete(s.processes, p.PID)
		s.removed = append(s.removed, p.PID)
	}
}

// dropPrevious forgets the n oldest programs.
func (s *state) dropPrevious(p *Process, n int) {
	for _, old := range p.previous[:n] {
		s.drop(old.mappings)
	}
	p.previous = slices.Delete(p.previous, 0, n)
}

func (s *state) drop(ms mappings) {
	for _, m := range ms {
		s.refs.release(m.exe)
	}
}

// touch notes that p's mappings differ from the store's.
func (s *state) touch(p *Process) {
	if !p.dirty {
		p.dirty = true
		s.dirty = append(s.dirty, p)
	}
}

// addMapping adds m to those that mergeMappings puts among the others, and takes its
// reference. It reports false if m is, or may be, memory for the code of a language runtime.
func (s *state) addMapping(p *Process, m located) bool {
	if p.takes(&m.Mapping) {
		return false
	}
	added := newMapping(m.Mapping, m.exe)
	p.detect(m.exe, &added)
	if p.interpret(m.exe, &added, &m.Mapping) {
		s.interpreting = append(s.interpreting, p)
	}
	if added.exe == nil {
		s.refs.release(m.exe)
	}
	if p.added == nil {
		p.added = make(mappings, 0, usualMappings)
	}
	p.added, p.last = append(p.added, added), fileOf(&m.Mapping)
	return true
}

// neighbour returns the executable of the mapping that was added last if m is of the same
// file: to find out which file one is of costs system calls.
func (p *Process) neighbour(m *procfs.Mapping) *Executable {
	if n := len(p.added); n > 0 && m.Inode != 0 && fileOf(m) == p.last {
		return p.added[n-1].exe
	}
	return nil
}

// reportedFile is what the kernel says of the file of a mapping.
type reportedFile struct {
	dev, inode uint64 // inode 0: no file
	path       string
}

func fileOf(m *procfs.Mapping) reportedFile { return reportedFile{m.Dev, m.Inode, m.Path} }

// mergeMappings puts the mappings that were added among the others: many at once, for a
// process may have ten thousand.
func (s *state) mergeMappings(p *Process) {
	if len(p.added) == 0 {
		return
	}
	added := p.added.newest(s.refs.keep, s.refs.release)
	p.added = nil
	if len(p.mappings) == 0 {
		p.mappings = added
		return
	}
	p.mappings = p.mappings.overlay(added, s.refs.keep, s.refs.release)
}

func (p *Process) rename(time uint64, comm string) {
	if comm == p.comm {
		return
	}
	p.before, p.renamed, p.comm = p.comm, time, comm
}

// commAt returns the name that p had at a time.
func (p *Process) commAt(time uint64) string {
	if p.renamed > time && p.before != "" {
		return p.before
	}
	return p.comm
}

// reap forgets the processes that ended before a time, and returns their PIDs; and the
// programs that were replaced before it.
func (s *state) reap(before uint64) (gone []uint32) {
	s.replaced = slices.DeleteFunc(s.replaced, func(p *Process) bool {
		old := slices.IndexFunc(p.previous, func(r program) bool { return r.until >= before })
		if old >= 0 {
			s.dropPrevious(p, old)
			return false
		}
		s.dropPrevious(p, len(p.previous))
		return true
	})
	s.ended = slices.DeleteFunc(s.ended, func(p *Process) bool {
		if p.ended >= before {
			return false
		}
		s.remove(p)
		gone = append(gone, p.PID)
		return true
	})
	return gone
}
