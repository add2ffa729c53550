package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Event is a change that the kernel reported or a Command found.
type Event interface {
	// apply changes the state and returns the commands to run, in order.
	apply(s *state) []Command
}

// mapped is a new executable mapping.
type mapped struct {
	time    uint64
	pid     uint32
	mapping procfs.Mapping
	exe     *Executable // with a reference; nil if the file is not known yet
	scanned bool        // the process was unknown, and /proc has been searched for it
}

func (e mapped) apply(s *state) []Command {
	p := s.processes[e.pid]
	if p == nil {
		if !e.scanned {
			e.scanned = true
			return []Command{s.scanCommand(e.pid, e)} // also finds this mapping, unless the process has gone
		}
		p = s.addProcess(e.pid)
		p.begun = e.time
	}
	if e.time < p.started {
		s.refs.release(e.exe)
		return nil // the mapping was of the previous program
	}
	if e.exe == nil {
		e.exe = p.neighbour(&e.mapping)
		s.refs.keepExecutable(e.exe)
	}
	if e.exe != nil || !hasExecutable(&e.mapping) {
		return opened{e, p}.apply(s)
	}
	return []Command{open{e, p}}
}

// opened is a new mapping whose file is known or cannot be opened.
type opened struct {
	mapped
	process *Process
}

func (e opened) apply(s *state) []Command {
	p := e.process
	if s.processes[e.pid] != p || e.time < p.started { // it ended or was replaced since
		s.refs.release(e.exe)
		return nil
	}
	m := located{Mapping: e.mapping, exe: e.exe}
	pieces := s.inDoubt(p, m)
	for _, piece := range pieces {
		s.addReported(p, e.time, piece)
	}
	if pieces == nil {
		s.addReported(p, e.time, m)
	}
	s.touch(p)
	return nil
}

// addReported adds a mapping that the kernel reported, and takes over its reference.
func (s *state) addReported(p *Process, time uint64, m located) {
	if p.scans > 0 {
		s.refs.keepExecutable(m.exe)
		p.reported = append(p.reported, m)
	}
	s.addMapping(p, m, time)
}

// execed is the start of a new program, called comm, in a process.
type execed struct {
	time uint64
	pid  uint32
	comm string
}

func (e execed) apply(s *state) []Command {
	p := s.processes[e.pid]
	if p == nil {
		p = s.addProcess(e.pid)
		p.begun = e.time
	}
	s.replaceProgram(p, e.time)
	s.revive(p)
	p.rename(e.time, e.comm)
	p.started, p.ignored = e.time, false
	p.attached, p.code, p.interpreted, p.doubts, p.written = nil, nil, nil, doubts{}, nil
	p.execs++
	s.touch(p)
	return nil
}

// renamed is a change of a process's name.
type renamed struct {
	time uint64
	pid  uint32
	comm string
}

func (e renamed) apply(s *state) []Command {
	if p := s.processes[e.pid]; p != nil && e.time >= p.started {
		p.rename(e.time, e.comm)
	}
	return nil
}

// forked is a new process, which inherits its parent's name, mappings and code.
type forked struct {
	time        uint64
	parent, pid uint32
	scanned     bool // the parent was unknown, and /proc has been searched for it
}

func (e forked) apply(s *state) []Command {
	if p := s.processes[e.pid]; p != nil && p.started > e.time {
		return nil // it has executed a program since
	}
	from := s.processes[e.parent]
	switch {
	case from == nil && !e.scanned:
		e.scanned = true
		return []Command{s.scanCommand(e.parent, e)}
	case from == nil:
		return []Command{s.scanCommand(e.pid, nil)}
	}
	s.mergeMappings(from)
	p := s.addProcess(e.pid)
	p.comm, p.begun, p.started, p.doubts, p.written = from.comm, e.time, e.time, from.doubts, from.written
	p.execBase, p.execKnown = from.execNumber(), from.execKnown
	if !p.execKnown {
		p.parent, p.parentExecs = from, from.execs
	}
	p.noteChange(e.time)       // another process may have had its PID
	p.mappings = from.mappings // shared: the slice is replaced, never changed
	p.attached, p.code, p.interpreted = inherit(from.attached), from.code, from.interpreted.inherit()
	if p.interpreted.isOpen() {
		s.awaiting = append(s.awaiting, p)
	}
	for _, m := range p.mappings {
		s.refs.keepExecutable(m.exe)
	}
	s.touch(p)
	return nil
}

// revive notes that p continues although its first thread has ended: another thread has started a program.
func (s *state) revive(p *Process) {
	if p.ended == 0 {
		return
	}
	p.ended = 0
	s.ended = slices.DeleteFunc(s.ended, func(other *Process) bool { return other == p })
}

// exited is the end of a process. The process is kept until reap, for samples that are not read yet.
type exited struct {
	time uint64
	pid  uint32
}

func (e exited) apply(s *state) []Command {
	p := s.processes[e.pid]
	if p == nil || p.started > e.time || p.ended != 0 {
		return nil
	}
	p.ended = e.time
	s.ended = append(s.ended, p)
	return nil
}

// recordsLost reports that records are missing: all processes are read again.
type recordsLost struct {
	alive []uint32
	since uint64 // time since which records may be missing
}

func (e recordsLost) apply(s *state) (commands []Command) {
	s.known = min(s.known, e.since)
	for _, p := range s.processes {
		p.execKnown = false // it may have started programs
	}
	alive := map[uint32]bool{}
	for _, pid := range e.alive {
		alive[pid] = true
		commands = append(commands, s.scanCommand(pid, nil))
	}
	for pid, p := range s.processes {
		if !alive[pid] && p.ended == 0 {
			p.ended = 1
			s.ended = append(s.ended, p)
		}
	}
	return commands
}

// scanned is the state of a process that was read from /proc.
type scanned struct {
	scan
	at       time.Time
	until    uint64 // CLOCK_MONOTONIC
	comm     string // "" if it was not read
	mappings []located
}

func (e scanned) apply(s *state) []Command {
	p := s.processes[e.pid]
	switch {
	case len(e.mappings) == 0: // it has gone, or is a kernel thread
	case p == nil && e.process == nil:
		s.replaceMappings(s.addProcess(e.pid), &e)
	case p != nil && p == e.process && p.execs == e.execs:
		s.replaceMappings(p, &e)
	default: // the PID has another process, or it another program, since
		for _, m := range e.mappings {
			s.refs.release(m.exe)
		}
	}
	if e.process != nil {
		s.endScan(e.process)
	}
	if e.then == nil {
		return nil
	}
	return e.then.apply(s)
}

// replaceMappings replaces p's mappings by those read from /proc and those reported since the read started.
func (s *state) replaceMappings(p *Process, e *scanned) {
	if e.comm != "" && (p.started == 0 || p.comm == "") {
		p.comm = e.comm
	}
	p.scanned = e.at
	if p.doubts.noteDoubt(hasDoubts(e.mappings)) {
		s.settle(e.mappings)
	}
	for _, m := range e.mappings {
		p.noteWritten(m)
	}
	s.mergeMappings(p)
	s.findReplaced(p, e)
	old := p.mappings
	p.mappings = nil
	for _, a := range p.attached {
		a.waiting = nil
	}
	for _, c := range p.code {
		s.refs.keepExecutable(c.exe)
		p.added = append(p.added, c.mapping())
	}
	for _, files := range []bool{true, false} { // a runtime before the code that it generated
		for _, m := range e.mappings {
			if m.HasFile() == files {
				s.addMapping(p, m, 0)
			}
		}
	}
	for _, m := range p.reported[e.from:] {
		s.refs.keepExecutable(m.exe)
		s.addMapping(p, m, 0)
	}
	s.dropMappings(old)
	s.touch(p)
}

// findReplaced starts an epoch if /proc shows other files than were reported. The time of the replacement is unknown,
// but it is after the last applied record.
func (s *state) findReplaced(p *Process, e *scanned) {
	for _, m := range e.mappings {
		if m.exe == nil || m.exe.pending {
			continue // the reported mapping may know its file
		}
		now := p.mappingOf(m)
		if p.mappings.overlaps(&now, func(old *mapping) bool { return old.exe != nil && old.differs(&now) }) {
			s.replace(p, max(s.known+1, p.latest()))
			s.loseRecords(p, max(e.until, p.latest()))
			return
		}
	}
}

// endScan notes the end of a read of /proc.
func (s *state) endScan(p *Process) {
	if p.scans--; p.scans > 0 {
		return
	}
	for _, m := range p.reported {
		s.refs.release(m.exe)
	}
	p.reported = nil
}

// attached is the answer of a language runtime that was asked for its code.
type attached struct {
	attach
	code  *JITCode // with a reference to its executable; nil if unknown
	retry bool     // it may be known later
}

func (e attached) apply(s *state) []Command {
	p, a := e.process, e.attachment
	a.busy = false
	if s.processes[p.PID] != p || !slices.Contains(p.attached, a) { // another process or program since
		if e.code != nil {
			s.refs.release(e.code.exe)
		}
		return nil
	}
	switch {
	case e.retry:
		return nil
	case e.code == nil:
		a.failed = true
	default:
		a.code = e.code
		p.code = append(slices.Clip(p.code), e.code)
		p.added = append(p.added, e.code.mapping())
	}
	waiting := a.waiting
	a.waiting = nil
	for _, m := range waiting {
		s.addMapping(p, located{Mapping: m}, 0)
	}
	s.touch(p)
	return nil
}
