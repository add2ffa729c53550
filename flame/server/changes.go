package server

import (
	"slices"
	"sync"
	"time"
)

// changes finds programs that get a new build, and keeps the profiles of both builds longer than the history does,
// within limits. It shares the profiles with the history. It is safe for concurrent use.
type changes struct {
	room    int64                              // bytes for all changes
	started func(pid uint32) (time.Time, bool) // start time of a process; nil: unknown

	mu       sync.Mutex
	programs map[programKey]*program
	spans    []span    // the most recent rounds
	list     []*change // oldest first
	seen     uint64    // number of changes since the start
	worker   worker
}

// program is the state of a program. A service that never gets a new build takes no more memory than this.
type program struct {
	build  string  // the newest build that runs
	since  int64   // start of the round in which the build was first seen, ms since 1970
	last   int64   // end of the round in which the program was last seen
	change *change // the change to that build; nil: none, or no longer kept
}

// span is the time of a round.
type span struct{ start, end int64 }

// sighting holds the builds of a program in a round.
type sighting map[string]*seenBuild // by build

// seenBuild is a build of a program in a round.
type seenBuild struct {
	entries []*kept
	pids    []uint32
	samples uint64
}

// sightings returns the builds in a round, by program.
func sightings(entries []*kept) map[programKey]sighting {
	out := map[programKey]sighting{}
	for _, k := range entries {
		for _, p := range k.Processes {
			if p.Build == "" {
				continue
			}
			key := programKey{k.target.name, p.Program}
			if out[key] == nil {
				out[key] = sighting{}
			}
			b := out[key][p.Build]
			if b == nil {
				b = &seenBuild{}
				out[key][p.Build] = b
			}
			b.pids, b.samples = append(b.pids, p.PID), b.samples+p.Samples
			if !slices.Contains(b.entries, k) {
				b.entries = append(b.entries, k)
			}
		}
	}
	return out
}

// mostSeenBuild returns the build with the most samples.
func (s sighting) mostSeenBuild() (id string) {
	for b, seen := range s {
		if id == "" || seen.samples > s[id].samples || seen.samples == s[id].samples && b < id {
			id = b
		}
	}
	return id
}

// entries returns the profiles of a build, nil if the build was not seen.
func (s sighting) entries(id string) []*kept {
	if b := s[id]; b != nil {
		return b.entries
	}
	return nil
}

// addRound takes the profiles of a round; history holds all kept profiles, including the round's.
func (c *changes) addRound(start, end time.Time, entries, history []*kept) {
	now := span{start.UnixMilli(), end.UnixMilli()}
	c.mu.Lock()
	defer c.mu.Unlock()
	round := sightings(entries)
	for key, s := range round {
		c.lookAtProgram(key, s, now, history)
	}
	for _, ch := range c.list {
		ch.extend(round[ch.key], now, c.room/4)
	}
	c.spans = append(c.spans, now)
	c.spans = slices.Clone(c.spans[max(0, len(c.spans)-2*maxSideRounds):])
	c.trimBefore(now)
	c.worker.start(c)
}

// lookAtProgram processes the builds of a program in a round.
func (c *changes) lookAtProgram(key programKey, s sighting, now span, history []*kept) {
	p := c.programs[key]
	if p == nil {
		if len(c.programs) < maxPrograms {
			c.programs[key] = &program{build: s.mostSeenBuild(), since: now.start, last: now.end}
		}
		return
	}
	p.last = now.end
	if len(s) == 1 && s[p.build] != nil {
		return // the usual case
	}
	for id, seen := range s {
		if id != p.build && c.isNew(p, id, seen, now, history) {
			c.replace(key, p, id, s, now, history)
			return
		}
	}
}

// isNew reports whether a build is newer than p's current build: one of its processes started after the current build
// was first seen, or ran the current build before. Otherwise the build has run all the time, for example in another
// container.
func (c *changes) isNew(p *program, id string, seen *seenBuild, now span, history []*kept) bool {
	after := p.since
	if ch := p.change; ch != nil && ch.old.id == id {
		if ch.sharing || now.end == ch.began {
			return false // the old build has not ended yet
		}
		after = ch.began
	}
	for _, pid := range seen.pids {
		if c.started == nil {
			return true
		}
		if at, ok := c.started(pid); ok && at.UnixMilli() > after {
			return true
		}
		if ranBefore(history, pid, p.build) {
			return true
		}
	}
	return false
}

// ranBefore reports whether a process ran a build in any of the profiles.
func ranBefore(history []*kept, pid uint32, id string) bool {
	for _, k := range history {
		for _, p := range k.Processes {
			if p.PID == pid && p.Build == id {
				return true
			}
		}
	}
	return false
}

// replace records that a program has a new build.
func (c *changes) replace(key programKey, p *program, id string, s sighting, now span, history []*kept) {
	before := p.change
	short := before != nil && len(before.new.rounds)+len(before.new.shared) < minSideRounds
	old := side{build: build{key.path, p.build}}
	if short { // compare with the build before it
		old = before.old
	} else {
		c.collect(&old, key.service, id, p.since, s[p.build] != nil, history)
	}
	c.dropChange(before)
	p.build, p.since, p.change = id, now.start, nil
	if old.id == id || old.samples() < minChangeSamples {
		return
	}
	p.change = &change{
		key: key, old: old, new: side{build: build{key.path, id}}, began: now.end, sharing: s[old.id] != nil,
	}
	c.list = append(c.list, p.change)
	c.seen++
}

// samples returns the number of samples of the build's processes in its rounds.
func (s *side) samples() (sum uint64) {
	for _, r := range s.rounds {
		for _, k := range r.entries {
			n, _, _ := k.samplesOf(s.build)
			sum += n
		}
	}
	return sum
}

// collect finds the newest rounds of the old build that fit into the room. It leaves out the first round and, if the
// build has ended, the last one, because the build ran only for a part of them. Idle rounds in between count.
func (c *changes) collect(old *side, service, id string, since int64, runs bool, history []*kept) {
	byEnd := map[int64][]*kept{}
	for _, k := range history {
		if k.target.name == service {
			byEnd[k.end] = append(byEnd[k.end], k)
		}
	}
	var found []*round
	for _, at := range slices.Backward(c.spans) {
		if at.start <= since {
			break
		}
		s := sightings(byEnd[at.end])[programKey{service, old.path}]
		if s[id] != nil || !old.distinct() && len(s) > 1 {
			continue
		}
		found = append(found, &round{start: at.start, end: at.end, entries: s.entries(old.id)})
	}
	first := slices.IndexFunc(found, func(r *round) bool { return len(r.entries) > 0 })
	if first < 0 {
		return
	}
	found = found[first:]
	if !runs {
		found = found[1:]
	}
	for len(found) > 0 && len(found[len(found)-1].entries) == 0 {
		found = found[:len(found)-1]
	}
	for _, r := range found {
		if !old.addRound(r, false, c.room/4) {
			break
		}
	}
	slices.Reverse(old.rounds)
}

// extend adds a round to the new side. It adds the round only when the build is seen again, since the build may have
// ended in it.
func (c *change) extend(s sighting, now span, room int64) {
	if c.full || now.end == c.began {
		return
	}
	old, fresh := s.entries(c.old.id), s.entries(c.new.id)
	if !c.new.distinct() && len(s) > 1 {
		fresh = nil // the two builds cannot be distinguished
	}
	r := &round{start: now.start, end: now.end, entries: fresh}
	switch {
	case len(fresh) == 0 && len(old) == 0:
		if c.waiting = append(c.waiting, r); len(c.waiting) > maxSideRounds {
			c.full = true
		}
		return
	case len(fresh) == 0:
		c.sharing, c.waiting = true, nil
		return
	}
	for _, w := range c.waiting {
		c.full = c.full || !c.new.addRound(w, false, room)
	}
	c.waiting, c.sharing, c.stale = nil, len(old) > 0, true
	if c.sharing {
		c.new.addRound(r, true, room)
	} else {
		c.waiting = []*round{r}
	}
}

// dropChange removes a change. gone may be nil.
func (c *changes) dropChange(gone *change) {
	if gone == nil {
		return
	}
	c.list = slices.DeleteFunc(c.list, func(ch *change) bool { return ch == gone })
	if p := c.programs[gone.key]; p != nil && p.change == gone {
		p.change = nil
	}
}

// trimBefore drops changes that are too old. Beyond the limits it drops the changes of programs with the fewest
// samples. It also removes idle programs.
func (c *changes) trimBefore(now span) {
	for _, ch := range slices.Clone(c.list) {
		if now.end-ch.began > maxChangeAge.Milliseconds() {
			c.dropChange(ch)
		}
	}
	for c.bytes() > c.room || len(c.list) > maxChanges {
		c.dropChange(slices.MinFunc(c.list, func(a, b *change) int { return compareDown(b.old.samples(), a.old.samples()) }))
	}
	if len(c.programs) < maxPrograms {
		return
	}
	for key, p := range c.programs {
		if now.end-p.last > programIdle.Milliseconds() && p.change == nil {
			delete(c.programs, key)
		}
	}
}

// bytes returns the memory use of all changes. The caller holds c.mu.
func (c *changes) bytes() (sum int64) {
	for _, ch := range c.list {
		sum += ch.bytes()
	}
	return sum
}

// allChanges returns the changes, newest first, and the number of changes ever seen.
func (c *changes) allChanges() (out []Change, seen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range slices.Backward(c.list) {
		out = append(out, ch.exported())
	}
	return out, c.seen
}
