package server

import (
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/flame/compare"
)

// bytesPerFunction is the approximate memory use of one function in a compare.Run.
const bytesPerFunction = 150

// worker compares changes, one at a time, while any change is stale. Guarded by changes.mu.
type worker struct {
	runs bool
	idle chan struct{} // closed when it has ended
}

// start starts the worker if a change is stale and the worker does not run.
func (w *worker) start(c *changes) {
	if w.runs || c.stale() == nil {
		return
	}
	w.runs, w.idle = true, make(chan struct{})
	go w.compareChanges(c)
}

// stale returns a change with new rounds; nil if there is none. The caller holds c.mu.
func (c *changes) stale() *change {
	for _, ch := range c.list {
		if ch.stale {
			return ch
		}
	}
	return nil
}

func (w *worker) compareChanges(c *changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := c.stale(); ch != nil; ch = c.stale() {
		ch.stale = false
		old, fresh, per, ok := ch.compared()
		if !ok {
			continue
		}
		before, after := ch.old, ch.new // copies are safe: rounds are only appended
		c.mu.Unlock()
		before.bytes, after.bytes = before.readRounds(old), after.readRounds(fresh)
		report, err := compareRounds(old, fresh, per)
		c.mu.Lock()
		ch.old.bytes, ch.new.bytes = ch.old.bytes+before.bytes, ch.new.bytes+after.bytes
		if ch.report, ch.problem = report, ""; err != nil {
			ch.problem = err.Error()
		}
	}
	w.runs = false
	close(w.idle)
}

// waitForWorker returns when no comparison is under way.
func (c *changes) waitForWorker() {
	c.mu.Lock()
	runs, idle := c.worker.runs, c.worker.idle
	c.mu.Unlock()
	if runs {
		<-idle
	}
}

// readRounds counts the samples of the rounds that are not read yet, and returns the memory that the counts take. Only
// the worker uses round.run.
func (s *side) readRounds(rounds []*round) (bytes int64) {
	for _, r := range rounds {
		if r.run != nil || r.failed {
			continue
		}
		run, err := s.runOf(r)
		if err != nil {
			r.failed = true
			continue
		}
		r.run = run
		bytes += int64(run.Functions()) * bytesPerFunction
	}
	return bytes
}

// runOf counts the samples of the build in a round.
func (s *side) runOf(r *round) (*compare.Run, error) {
	took := time.Duration(r.end-r.start) * time.Millisecond
	if len(r.entries) == 0 {
		return compare.Idle(took.Seconds(), "seconds"), nil
	}
	p, err := s.profileOf(r)
	if err != nil {
		return nil, err
	}
	p.DurationNanos = took.Nanoseconds()
	return compare.NewRun(p, false)
}

// profileOf returns the samples of the build in a round.
func (s *side) profileOf(r *round) (*profile.Profile, error) {
	var parts []*profile.Profile
	for _, k := range r.entries {
		of := selection{exe: s.path, build: s.id}
		if r.of != nil {
			of = *r.of
		}
		some, err := decode([]*kept{k}, of)
		if err != nil {
			return nil, err
		}
		parts = append(parts, some...)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return profile.Merge(parts)
}

// compareRounds compares rounds that have been read. The confidence level accounts for repeated comparisons: one for
// each new round.
func compareRounds(old, fresh []*round, per compare.Per) (*compare.Report, error) {
	o := compare.DefaultOptions()
	o.Per = per
	o.Confidence = 1 - (1-o.Confidence)/maxSideRounds
	return compare.Runs(runsOf(old, per), runsOf(fresh, per), o)
}

// runsOf returns the runs of the rounds that have been read. A round without samples has no shares of CPU time.
func runsOf(rounds []*round, per compare.Per) (out []*compare.Run) {
	for _, r := range rounds {
		if r.run != nil && (per != compare.PerCPU || r.run.Samples() > 0) {
			out = append(out, r.run)
		}
	}
	return out
}
