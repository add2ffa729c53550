package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Process is the state of one process.
type Process struct {
	PID uint32
	name
	begun   uint64 // time of the fork, exec or mapping that made it known; 0 if it was there before
	started uint64 // time of the last exec or fork; 0 if before the Tracker
	ended   uint64 // time of the end; 0 while the process runs

	mappings    mappings
	added       mappings     // in order of time, not merged into mappings yet
	last        reportedFile // file of the last added mapping
	history                  // earlier mappings and code
	execs       int          // programs that it has started
	execBase    uint32       // the kernel's number of its present program, minus execs
	execKnown   bool         // whether execBase is known
	parent      *Process     // process that forked this one, while execBase is unknown; may be nil
	parentExecs int          // execs of the parent at the fork
	pushedExec  uint32       // program number that the store got last
	attached    []*attachment
	code        []*JITCode          // of attached; the slice is replaced, never changed
	interpreted *interpretedRuntime // nil if there is none

	written []reportedFile // files that are no ELF files, to which the process could write code

	scans    int           // reads of /proc in progress
	reported []located     // mappings reported since the first pending read
	scanned  time.Time     // when /proc was last read
	pause    time.Duration // until /proc may be read again
	doubts   doubts

	ignored bool
	dirty   bool      // mappings differ from the store's
	pushed  time.Time // when the store got them last
}

// execNumber returns the kernel's number of the program that the process runs, or 0 if unknown.
func (p *Process) execNumber() uint32 {
	if !p.execKnown {
		return 0
	}
	return p.execBase + uint32(p.execs)
}

// name is the name of a process and its name before that.
type name struct {
	comm    string
	before  string // the name until renamed
	renamed uint64 // time of the last change of name; 0 if never
}

// usualMappings is the number of executable mappings with which most programs start: the program, its loader, the vdso,
// the C library and two more.
const usualMappings = 6

// located is a mapping and its file.
type located struct {
	procfs.Mapping
	exe   *Executable // with a reference; nil if there is no file, or it cannot be opened
	doubt bool        // memory in place of exe's text, see mapping
}

// references counts the users of executables.
type references interface {
	keepExecutable(*Executable)
	release(*Executable)
}

// state is the state of all processes. It is pure: it reads no file and no clock, and takes no lock. An Event changes
// it and returns the Commands to run; each Command results in another Event. The Tracker's mutex guards the state.
type state struct {
	refs       references
	processes  map[uint32]*Process
	dirty      []*Process // to be pushed to the store
	removed    []uint32   // to be deleted from the store
	ended      []*Process
	replaced   []*Process // with epochs
	restless   []*Process // that recently mapped one file over another
	known      uint64     // all records up to this time have been applied
	awaiting   []*Process // whose interpreters have not answered yet
	generation uint32     // of the mappings that the store got last
}

func newState(refs references) state {
	return state{refs: refs, processes: map[uint32]*Process{}}
}

// addProcess adds a new process. It forgets an older process with the same PID.
func (s *state) addProcess(pid uint32) *Process {
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
	s.dropMappings(p.mappings)
	p.mappings = nil
	s.dropEpochs(p, len(p.epochs))
	if s.processes[p.PID] == p {
		delete(s.processes, p.PID)
		s.removed = append(s.removed, p.PID)
	}
}

func (s *state) dropMappings(ms mappings) {
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

// addMapping adds m, which was mapped at a time, to the mappings that mergeMappings will merge, and takes over its
// reference. Time 0 keeps the mapping out of the history.
func (s *state) addMapping(p *Process, m located, time uint64) {
	if p.takes(&m.Mapping) {
		return // memory that holds, or may hold, code of a language runtime
	}
	p.noteWritten(m)
	added := p.mappingOf(m)
	if time != 0 && s.replaces(p, &added) {
		s.replace(p, time)
	}
	p.detect(m.exe, &added)
	if p.noteRuntime(m.exe, &added, &m.Mapping) {
		s.awaiting = append(s.awaiting, p)
	}
	if added.exe == nil {
		s.refs.release(m.exe)
	}
	if p.added == nil {
		p.added = make(mappings, 0, usualMappings)
	}
	p.added, p.last = append(p.added, added), fileOf(&m.Mapping)
}

// neighbour returns the executable of the mapping added last if m maps the same file. That saves the system calls that
// identify a file.
func (p *Process) neighbour(m *procfs.Mapping) *Executable {
	if n := len(p.added); n > 0 && m.Inode != 0 && fileOf(m) == p.last {
		return p.added[n-1].exe
	}
	return nil
}

// reportedFile identifies the file of a mapping as the kernel reports it.
type reportedFile struct {
	dev, inode uint64 // inode is 0 if there is no file
	path       string
}

func fileOf(m *procfs.Mapping) reportedFile { return reportedFile{m.Dev, m.Inode, m.Path} }

// mergeMappings merges the added mappings into p.mappings: many at once, because a process may have ten thousand.
func (s *state) mergeMappings(p *Process) {
	if len(p.added) == 0 {
		return
	}
	added := p.added.newest(s.refs.keepExecutable, s.refs.release)
	p.added = nil
	if len(p.mappings) == 0 {
		p.mappings = added
		return
	}
	p.mappings = p.mappings.overlay(added, s.refs.keepExecutable, s.refs.release)
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

// reapBefore forgets the processes that ended before a time and returns their PIDs. It also forgets the mappings that
// were replaced before that time.
func (s *state) reapBefore(before uint64) (gone []uint32) {
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
