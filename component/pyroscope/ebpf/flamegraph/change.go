package flamegraph

import (
	"time"

	"github.com/headwater/headwater/ebpf/compare"
)

// Limits of what is kept of changes of builds.
const (
	maxChanges       = 16
	maxChangeAge     = 24 * time.Hour
	maxSideRounds    = 40  // of a side of a change
	minSideRounds    = 2   // from which on sides are compared
	minChangeSamples = 100 // of the old build: fewer say nothing
	maxPrograms      = 4000
	programIdle      = time.Hour
)

// side is one build of a change: the rounds in which it ran, oldest first.
type side struct {
	build
	rounds []*round // in which no other build of the program ran
	shared []*round // in which both ran
	bytes  int64    // that the profiles take
}

// round is a part of a side: one interval.
type round struct {
	start, end int64 // ms since 1970
	entries    []*kept
	of         *selection   // the part of entries that counts; nil: that of the side's build
	run        *compare.Run // of entries; nil until they have been read
	failed     bool         // they cannot be read
}

// add appends a round, if there is room.
func (s *side) add(r *round, shared bool, room int64) bool {
	list := &s.rounds
	if shared {
		list = &s.shared
	}
	var size int64
	for _, k := range r.entries {
		size += k.size()
	}
	if len(*list) >= maxSideRounds || s.bytes+size > room {
		return false
	}
	*list = append(*list, r)
	s.bytes += size
	return true
}

// all returns the rounds of both kinds.
func (s *side) all() []*round { return append(append([]*round{}, s.rounds...), s.shared...) }

// span returns when the build ran, in ms since 1970.
func (s *side) span() (from, to int64) {
	for _, r := range s.all() {
		if len(r.entries) == 0 {
			continue
		}
		if from == 0 || r.start < from {
			from = r.start
		}
		to = max(to, r.end)
	}
	return from, to
}

// change is that of a program from one build to the next. Guarded by changes.mu.
type change struct {
	key      programKey
	old, new side
	began    int64    // when the new build was first seen: the end of that interval, in ms since 1970
	waiting  []*round // the round in which the new build was seen last, alone, and those since in which it was not
	sharing  bool     // both ran in the last round that had either
	full     bool     // no more rounds are added
	stale    bool     // there are rounds that the report does not have
	report   *compare.Report
	problem  string // why there is none
}

func (c *change) bytes() int64 { return c.old.bytes + c.new.bytes }

// compared returns the rounds to compare, and by what: CPU a second of the rounds in which one build ran alone or,
// while both run all the time, parts of each one's CPU time; false if there are too few.
func (c *change) compared() (old, fresh []*round, per compare.Per, ok bool) {
	switch {
	case len(c.old.rounds) >= minSideRounds && len(c.new.rounds) >= minSideRounds:
		return c.old.rounds, c.new.rounds, compare.PerSecond, true
	case len(c.old.rounds) >= minSideRounds && len(c.new.shared) >= minSideRounds &&
		c.old.distinct() && c.new.distinct():
		return c.old.rounds, c.new.shared, compare.PerCPU, true
	}
	return nil, nil, "", false
}

// Change is a program's change from one build to the next, for metrics and logs.
type Change struct {
	Service string // value of service_name
	Program string // path of the executable
	Old     string // build ID, or what process.Executable.Version says of a file without
	New     string
	Began   time.Time       // of the interval in which the new build was seen first, its end
	Both    bool            // both builds run, so that parts of CPU time are compared, not CPU a second
	Report  *compare.Report // nil until there is enough to compare; not to be changed
	Problem string          // why there is none, if it cannot be
}

// More returns the functions that became more expensive for certain, and Less those that became cheaper.
func (c *Change) More() []compare.Change {
	return c.certain(func(f *compare.Change) bool { return f.Low > 1 })
}

// Less is the reverse of More.
func (c *Change) Less() []compare.Change {
	return c.certain(func(f *compare.Change) bool { return f.Low <= 1 })
}

func (c *Change) certain(is func(*compare.Change) bool) (out []compare.Change) {
	if c.Report == nil {
		return nil
	}
	for i := range c.Report.Changed {
		if f := &c.Report.Changed[i]; is(f) {
			out = append(out, *f)
		}
	}
	return out
}

// exported returns the change as others see it.
func (c *change) exported() Change {
	out := Change{
		Service: c.key.service, Program: c.key.path, Old: c.old.id, New: c.new.id, Began: time.UnixMilli(c.began),
		Report: c.report, Problem: c.problem,
	}
	out.Both = c.report != nil && c.report.Per == compare.PerCPU
	return out
}
