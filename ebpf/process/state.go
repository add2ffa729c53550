package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

// Process is what is known of one process.
type Process struct {
	PID uint32
	name
	begun   uint64 // time since which it is known: of the fork or exec; 0: it was there before
	started uint64 // time of the last exec, or fork; 0: before the Tracker
	ended   uint64 // time, 0: it lives

	mappings       mappings
	added          mappings     // in order of time, not yet among mappings
	last           reportedFile // of the last of them
	history                     // what it had before
	execs          int          // programs that it has started
	execBase       uint32       // the kernel's number of its present program, less execs
	execKnown      bool         // execBase is known
	parent         *Process     // if it is not: who has forked the process; nil: not known
	parentExecs    int          // execs of the parent then
	pushedExec     uint32       // the number that the store got last
	attached       []*attachment
	code           []*JITCode      // of those; replaced, never changed
	interpretation *interpretation // nil: none

	scans    int           // readings of /proc that are under way
	reported []located     // reported since the first of them began
	scanned  time.Time     // when /proc was last read
	pause    time.Duration // until it may be read again
	doubts   doubts

	ignored bool
	dirty   bool      // mappings differ from the store's
	pushed  time.Time // when the store got them last
}

// exec returns the kernel's number of the program that the process runs, 0 if that is not known.
func (p *Process) exec() uint32 {
	if !p.execKnown {
		return 0
	}
	return p.execBase + uint32(p.execs)
}

// name is what a process is called.
type name struct {
	comm    string
	before  string // the name until renamed
	renamed uint64 // time, 0: never
}

// usualMappings are as many as most programs begin with: themselves, their loader, the vdso, the C library
// and two more.
const usualMappings = 6

// located is a mapping and the file that it is of.
type located struct {
	procfs.Mapping
	exe   *Executable // with a reference; nil: no file, or none that can be had
	doubt bool        // memory at the place of exe's text, see mapping
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
	replaced     []*Process // with epochs
	restless     []*Process // that have put one file over another lately
	known        uint64     // what was reported until this time has been applied
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
	s.dropEpochs(p, len(p.epochs))
	if s.processes[p.PID] == p {
		delete(s.processes, p.PID)
		s.removed = append(s.removed, p.PID)
	}
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

// addMapping adds m, which came at a time, to those that mergeMappings puts among the others, and takes its reference.
// Time 0: it takes no part in the history.
func (s *state) addMapping(p *Process, m located, time uint64) {
	if p.takes(&m.Mapping) {
		return // memory for the code of a language runtime, or it may be
	}
	added := newMapping(m.Mapping, m.exe)
	added.doubt = m.doubt
	if time != 0 && s.replaces(p, &added) {
		s.replace(p, time)
	}
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

func (n *name) rename(time uint64, comm string) {
	if comm == n.comm {
		return
	}
	n.before, n.renamed, n.comm = n.comm, time, comm
}

// commAt returns the name at a time.
func (n *name) commAt(time uint64) string {
	if n.renamed > time && n.before != "" {
		return n.before
	}
	return n.comm
}

// reap forgets the processes that ended before a time, and returns their PIDs; and the
// mappings that were replaced before it.
func (s *state) reap(before uint64) (gone []uint32) {
	s.reapHistory(before)
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
