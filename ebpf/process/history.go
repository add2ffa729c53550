package process

import "slices"

// history is what a process had until something was replaced: a program by another, or a file by another at its place.
// Walks by the mappings of before may be wrong from then on, and samples of before are understood by what was there.
type history struct {
	changes
	epochs []epoch // oldest first; dropped by reap
	held   int     // mappings of those
	calm   uint64  // time of the last replacement of a file, 0: none lately
}

// changes are when code came to the place of other code.
type changes struct {
	published []change // in order of time. Replaced, or added to; never changed
	pending   uint64   // time of the first one that the store does not know of; 0: there is none
}

// change is when code came to the place of other code.
type change struct {
	time       uint64
	generation uint32 // of the first mappings that the store got afterwards
	pushed     uint64 // time when it got those
}

// epoch is what a process had until a time.
type epoch struct {
	until          uint64 // time
	lost           bool   // what it was is not known
	execs          int
	mappings       mappings
	code           []*JITCode
	interpretation *interpretation
	name           name
}

const (
	// maxEpochs bounds the epochs of a process, and maxHeldMappings their mappings. What was there in others is lost.
	maxEpochs       = 256
	maxHeldMappings = 1 << 14
	// maxChanges bounds the changes that are remembered; then the oldest ones count as one.
	maxChanges = 256
	// maxUnmerged bounds the mappings that each new one is compared with before they are merged.
	maxUnmerged = 64
	// restless is for how long, in ns, a process that has put one file over another may do so again: its stacks are
	// copied, since walks in the kernel do not know of the next time at once.
	restless = 60e9
)

// stale reports whether a walk at a time went by mappings that were not the process's any more.
func (c *changes) stale(time uint64, generation uint32) bool {
	return c.pending != 0 && c.pending <= time || slices.ContainsFunc(c.published, func(c change) bool {
		return c.time <= time && generation < c.generation
	})
}

// note adds a change. Of those that the store gets at once, the first one counts.
func (c *changes) note(time uint64) {
	if c.pending == 0 || time < c.pending {
		c.pending = time
	}
}

// publish notes that the store got the mappings of now.
func (c *changes) publish(generation uint32, time uint64) {
	if c.pending == 0 {
		return
	}
	c.published = append(c.published, change{c.pending, generation, time})
	c.pending = 0
	if len(c.published) > maxChanges {
		c.published = slices.Clone(c.published[1:])
		c.published[0].time = 0 // so it counts for the one before, too
	}
}

// reap forgets the changes that the store got before a time. The last one stays, for samples that are compared with the
// present.
func (c *changes) reap(before uint64) {
	for len(c.published) > 1 && c.published[0].pushed < before {
		c.published = c.published[1:]
	}
}

// replaces reports whether a mapping comes to a place where another file was.
func (s *state) replaces(p *Process, m *mapping) bool {
	if len(p.added) > maxUnmerged {
		s.mergeMappings(p)
	}
	if slices.ContainsFunc(p.added, func(old mapping) bool { return old.differs(m) }) {
		return true
	}
	return p.mappings.overlaps(m, func(old *mapping) bool { return old.differs(m) })
}

// overlaps reports whether some of ms has a place in common with m, and is accepted.
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

// differs reports whether two mappings have a place in common where they are not of the same code. m is the older one:
// nothing is said of code in a file that was not opened yet, or of memory that may be moved text.
func (m *mapping) differs(other *mapping) bool {
	return !m.pending() && !m.doubt && m.start < other.end && other.start < m.end &&
		(m.exe != other.exe || m.bias != other.bias || other.doubt)
}

// replace begins an epoch, as another file comes to the place of one.
func (s *state) replace(p *Process, time uint64) {
	p.note(time)
	if p.calm == 0 {
		s.restless = append(s.restless, p)
	}
	p.calm = time
	if len(p.epochs) < maxEpochs && p.held+len(p.mappings)+len(p.added) <= maxHeldMappings {
		s.mergeMappings(p)
		for _, m := range p.mappings {
			s.refs.keep(m.exe)
		}
		s.addEpoch(p, epoch{until: time, mappings: p.mappings})
		return
	}
	s.lose(p, time)
}

// replaceProgram begins an epoch without mappings, as a program comes to the place of another.
func (s *state) replaceProgram(p *Process, time uint64) {
	p.note(time)
	s.mergeMappings(p)
	if len(p.epochs) < maxEpochs && p.held+len(p.mappings) <= maxHeldMappings {
		s.addEpoch(p, epoch{until: time, mappings: p.mappings})
	} else {
		s.drop(p.mappings)
		s.lose(p, time)
	}
	p.mappings = nil
}

// latest returns the time before which the epochs are.
func (p *Process) latest() uint64 {
	if n := len(p.epochs); n > 0 {
		return p.epochs[n-1].until
	}
	return p.started
}

// lose notes that what p has had since its last epoch is not known of any time until the given one.
func (s *state) lose(p *Process, time uint64) {
	if n := len(p.epochs); n > 0 && p.epochs[n-1].lost {
		p.epochs[n-1].until = time
		return
	}
	s.addEpoch(p, epoch{until: time, lost: true})
}

func (s *state) addEpoch(p *Process, e epoch) {
	e.execs, e.code, e.interpretation, e.name = p.execs, p.code, p.interpretation, p.name
	if len(p.epochs) == 0 {
		s.replaced = append(s.replaced, p)
	}
	p.epochs = append(p.epochs, e)
	p.held += len(e.mappings)
}

// dropEpochs forgets the n oldest ones.
func (s *state) dropEpochs(p *Process, n int) {
	for _, old := range p.epochs[:n] {
		p.held -= len(old.mappings)
		s.drop(old.mappings)
	}
	p.epochs = slices.Delete(p.epochs, 0, n)
}

// reapHistory forgets what processes had before a time, and lets those rest that have put no file over another for
// long.
func (s *state) reapHistory(before uint64) {
	s.replaced = slices.DeleteFunc(s.replaced, func(p *Process) bool {
		old := slices.IndexFunc(p.epochs, func(e epoch) bool { return e.until >= before })
		if old < 0 {
			old = len(p.epochs)
		}
		s.dropEpochs(p, old)
		p.changes.reap(before)
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

// learnExec learns the number of a process's programs, less how many it had started, and reports false if it was
// another one: starts of programs were not reported.
func (s *state) learnExec(p *Process, base uint32) bool {
	if p.execKnown {
		return base == p.execBase
	}
	p.execBase, p.execKnown = base, true
	if p.pushedExec != p.exec() {
		s.touch(p)
	}
	if parent := p.parent; parent != nil && !parent.execKnown {
		s.learnExec(parent, base-uint32(p.parentExecs))
	}
	p.parent = nil
	return true
}

// startUnreported notes that p runs another program at a time than was reported.
func (s *state) startUnreported(p *Process, time uint64) {
	s.replaceProgram(p, time)
	s.lose(p, time)
	p.attached, p.code, p.interpretation, p.doubts = nil, nil, nil, doubts{}
	p.execs++
	p.execKnown = false
	s.touch(p)
}
