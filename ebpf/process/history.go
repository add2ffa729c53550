package process

import "slices"

// history keeps the earlier mappings and code of a process. It grows when a program replaces another, or when a file is
// mapped over another. From then on, walks by the earlier mappings may be wrong, but earlier samples are resolved by
// them.
type history struct {
	changes
	epochs []epoch // oldest first; dropped by reap
	held   int     // number of mappings in epochs
	calm   uint64  // time of the last replacement of a file; 0 if none recently
}

// changes are the times at which code replaced other code.
type changes struct {
	published []change // in order of time; replaced or appended to, never changed
	pending   uint64   // time of the first change that the store does not have; 0 if none
}

// change is a replacement of code by other code.
type change struct {
	time       uint64
	generation uint32 // of the first mappings that the store got afterwards
	pushed     uint64 // time when the store got them
}

// epoch is the state of a process until a time.
type epoch struct {
	until       uint64 // time
	lost        bool   // the state is unknown
	execs       int
	mappings    mappings
	code        []*JITCode
	interpreted *interpretedRuntime
	name        name
}

const (
	// maxEpochs bounds the epochs of a process, and maxHeldMappings their mappings. Further epochs are lost.
	maxEpochs       = 256
	maxHeldMappings = 1 << 14
	// maxChanges bounds the remembered changes. Beyond it, the oldest changes are merged.
	maxChanges = 256
	// maxUnmerged bounds the unmerged mappings that each new one is compared with.
	maxUnmerged = 64
	// restless is how long, in ns, a process stays restless after it has mapped one file over another. Until then its
	// stacks are copied, because walks in the kernel learn too late about the next time.
	restless = 60e9
)

// stale reports whether a walk at a time used mappings that the process no longer had.
func (c *changes) stale(time uint64, generation uint32) bool {
	return c.pending != 0 && c.pending <= time || slices.ContainsFunc(c.published, func(c change) bool {
		return c.time <= time && generation < c.generation
	})
}

// noteChange adds a change. Changes that are published together count from the first one.
func (c *changes) noteChange(time uint64) {
	if c.pending == 0 || time < c.pending {
		c.pending = time
	}
}

// publish notes that the store got the present mappings.
func (c *changes) publish(generation uint32, time uint64) {
	if c.pending == 0 {
		return
	}
	c.published = append(c.published, change{c.pending, generation, time})
	c.pending = 0
	if len(c.published) > maxChanges {
		c.published = slices.Clone(c.published[1:])
		c.published[0].time = 0 // so it also counts for the dropped change
	}
}

// reapBefore forgets the changes that the store got before a time. It keeps the last one, for samples that are compared
// with the present mappings.
func (c *changes) reapBefore(before uint64) {
	for len(c.published) > 1 && c.published[0].pushed < before {
		c.published = c.published[1:]
	}
}

// replaces reports whether a mapping covers a place where other code was.
func (s *state) replaces(p *Process, m *mapping) bool {
	if len(p.added) > maxUnmerged {
		s.mergeMappings(p)
	}
	if slices.ContainsFunc(p.added, func(old mapping) bool { return old.differs(m) }) {
		return true
	}
	return p.mappings.overlaps(m, func(old *mapping) bool { return old.differs(m) })
}

// overlaps reports whether ms has a mapping that overlaps m and is accepted.
func (ms mappings) overlaps(m *mapping, accepted func(*mapping) bool) bool {
	first, _ := slices.BinarySearchFunc(ms, m.start, func(old mapping, start uint64) int {
		if old.end <= start {
			return -1
		}
		return 1
	})
	for ; first < len(ms) && ms[first].start < m.end; first++ {
		if accepted(&ms[first]) {
			return true
		}
	}
	return false
}

// differs reports whether two mappings overlap and are not of the same code. m is the older one. The result is false if
// m's file is not opened yet, or if m may be moved text.
func (m *mapping) differs(other *mapping) bool {
	return !m.pending() && !m.doubt && m.start < other.end && other.start < m.end &&
		(m.exe != other.exe || m.bias != other.bias || other.doubt)
}

// replace starts an epoch when a file is mapped over another.
func (s *state) replace(p *Process, time uint64) {
	p.noteChange(time)
	if p.calm == 0 {
		s.restless = append(s.restless, p)
	}
	p.calm = time
	if len(p.epochs) < maxEpochs && p.held+len(p.mappings)+len(p.added) <= maxHeldMappings {
		s.mergeMappings(p)
		for _, m := range p.mappings {
			s.refs.keepExecutable(m.exe)
		}
		s.addEpoch(p, epoch{until: time, mappings: p.mappings})
		return
	}
	s.loseRecords(p, time)
}

// replaceProgram starts an epoch without mappings when a program replaces another.
func (s *state) replaceProgram(p *Process, time uint64) {
	p.noteChange(time)
	s.mergeMappings(p)
	if len(p.epochs) < maxEpochs && p.held+len(p.mappings) <= maxHeldMappings {
		s.addEpoch(p, epoch{until: time, mappings: p.mappings})
	} else {
		s.dropMappings(p.mappings)
		s.loseRecords(p, time)
	}
	p.mappings = nil
}

// latest returns the end of the last epoch or, if there is none, the start of the process's program.
func (p *Process) latest() uint64 {
	if n := len(p.epochs); n > 0 {
		return p.epochs[n-1].until
	}
	return p.started
}

// loseRecords notes that p's state from the last epoch to the given time is unknown.
func (s *state) loseRecords(p *Process, time uint64) {
	if n := len(p.epochs); n > 0 && p.epochs[n-1].lost {
		p.epochs[n-1].until = time
		return
	}
	s.addEpoch(p, epoch{until: time, lost: true})
}

func (s *state) addEpoch(p *Process, e epoch) {
	e.execs, e.code, e.interpreted, e.name = p.execs, p.code, p.interpreted, p.name
	if len(p.epochs) == 0 {
		s.replaced = append(s.replaced, p)
	}
	p.epochs = append(p.epochs, e)
	p.held += len(e.mappings)
}

// dropEpochs forgets the n oldest epochs.
func (s *state) dropEpochs(p *Process, n int) {
	for _, old := range p.epochs[:n] {
		p.held -= len(old.mappings)
		s.dropMappings(old.mappings)
	}
	p.epochs = slices.Delete(p.epochs, 0, n)
}

// reapHistory forgets the state of processes before a time. It also ends the restless state of processes that have not
// mapped a file over another for long.
func (s *state) reapHistory(before uint64) {
	s.replaced = slices.DeleteFunc(s.replaced, func(p *Process) bool {
		old := slices.IndexFunc(p.epochs, func(e epoch) bool { return e.until >= before })
		if old < 0 {
			old = len(p.epochs)
		}
		s.dropEpochs(p, old)
		p.changes.reapBefore(before)
		return len(p.epochs) == 0
	})
	s.restless = slices.DeleteFunc(s.restless, func(p *Process) bool {
		if p.calm+restless > before {
			return false
		}
		p.calm = 0
		s.touch(p)
		return true
	})
}

// learnExec learns execBase: the kernel's number of the process's program, minus execs. It returns false if another
// base is known, because the starts of some programs were not reported.
func (s *state) learnExec(p *Process, base uint32) bool {
	if p.execKnown {
		return base == p.execBase
	}
	p.execBase, p.execKnown = base, true
	if p.pushedExec != p.execNumber() {
		s.touch(p)
	}
	if parent := p.parent; parent != nil && !parent.execKnown {
		s.learnExec(parent, base-uint32(p.parentExecs))
	}
	p.parent = nil
	return true
}

// startUnreported notes that p, at a time, runs a program that was not reported.
func (s *state) startUnreported(p *Process, time uint64) {
	s.replaceProgram(p, time)
	s.loseRecords(p, time)
	p.attached, p.code, p.interpreted, p.doubts, p.written = nil, nil, nil, doubts{}, nil
	p.execs++
	p.execKnown = false
	s.touch(p)
}
