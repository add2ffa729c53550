package server

import (
	"time"

	"github.com/headwater/headwater/flame/compare"
)

// Limits of the kept changes of builds.
const (
	maxChanges       = 16
	maxChangeAge     = 24 * time.Hour
	maxSideRounds    = 40  // per side of a change
	minSideRounds    = 2   // needed on each side for a comparison
	minChangeSamples = 100 // of the old build: fewer do not allow a conclusion
	maxPrograms      = 4000
	programIdle      = time.Hour
)

// side is one build of a change, with the rounds in which it ran, oldest first.
type side struct {
	build
	rounds []*round // in which no other build of the program ran
	shared []*round // in which both ran
	bytes  int64    // size of the profiles
}

// round is a part of a side: one interval.
type round struct {
	start, end int64 // ms since 1970
	entries    []*kept
	of         *selection   // the part of entries that counts; nil: the side's build
	run        *compare.Run // of entries; nil until they are read
	failed     bool         // they cannot be read
}

// addRound appends a round if its profiles fit into room.
func (s *side) addRound(r *round, shared bool, room int64) bool {
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

// allRounds returns the rounds and the shared rounds.
func (s *side) allRounds() []*round { return append(append([]*round{}, s.rounds...), s.shared...) }

// span returns the time in which the build ran, in ms since 1970.
func (s *side) span() (from, to int64) {
	for _, r := range s.allRounds() {
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

// change is a program's change from one build to the next. Guarded by changes.mu.
type change struct {
	key      programKey
	old, new side
	began    int64    // end of the interval in which the new build was first seen, in ms since 1970
	waiting  []*round // the last round in which only the new build was seen, and later rounds without it
	sharing  bool     // both builds ran in the last round in which either did
	full     bool     // further rounds are ignored
	stale    bool     // there are rounds that the report does not include
	report   *compare.Report
	problem  string // why there is no report
}

func (c *change) bytes() int64 { return c.old.bytes + c.new.bytes }

// compared returns the rounds to compare, and the unit of the comparison: CPU time per second in rounds in which only
// one build ran, or, if both builds run all the time, shares of each build's CPU time. It returns false if there are
// too few rounds.
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
	Old     string // build ID, or the version from process.Executable.Version for a file without one
	New     string
	Began   time.Time       // end of the interval in which the new build was first seen
	Both    bool            // both builds run, so shares of CPU time are compared, not CPU time per second
	Report  *compare.Report // nil until there are enough rounds to compare; read-only
	Problem string          // why it cannot be made
}

// More returns the functions that certainly became more expensive, and Less the functions that certainly became
// cheaper.
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

// exported returns the change in its exported form.
func (c *change) exported() Change {
	out := Change{
		Service: c.key.service, Program: c.key.path, Old: c.old.id, New: c.new.id, Began: time.UnixMilli(c.began),
		Report: c.report, Problem: c.problem,
	}
	out.Both = c.report != nil && c.report.Per == compare.PerCPU
	return out
}
