// Package verify measures whether stacks are right. perf records registers and stack of each sample at the same
// instant; package reference, which shares no code with the profiler, unwinds this copy; and package verify compares
// the result with the profiler's stack frame by frame.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// drainInterval is the maximum time of samples in the ring buffer. It is short because mappings may change during this
// time.
const drainInterval = 20 * time.Millisecond

// Options configure a Verifier.
type Options struct {
	SampleRate int // samples per second and CPU
	TableBytes int // limit of the memory for unwind tables
	Examples   int // number of whole stacks to show per kind of difference
}

// Verifier compares walks of this host. Its methods are for one goroutine.
type Verifier struct {
	options   Options
	sampler   *sampler.Sampler
	family    *family
	restrict  bool
	pairs     pairs
	reference *reference.Unwinder
	judge     *judge
	results   results
}

// Open starts sampling. Close the Verifier after use.
func Open(o Options) (*Verifier, error) {
	v := &Verifier{options: o, family: newFamily(), pairs: newPairs(), results: newResults(o)}
	if err := v.openSources(); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

func (v *Verifier) openSources() error {
	var err error
	v.sampler, err = sampler.Open(sampler.Options{
		TableBytes: v.options.TableBytes,
		Interval:   drainInterval,
		Snapshots:  true,
		Target:     v.wanted,
		Observe:    v.family.observe,
		AfterRound: v.compareSnapshots,
	})
	if err != nil {
		return err
	}
	v.judge = newJudge(v.sampler)
	if v.reference, err = reference.Open(); err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	return v.sampler.Configure(sampler.Config{
		SampleRate: v.options.SampleRate, UserStacks: true, TableBytes: v.options.TableBytes,
	})
}

// Restrict limits the comparison to a process and its descendants. Call it before Run.
func (v *Verifier) Restrict(pid uint32) error {
	if err := v.family.begin(pid, procfs.Default); err != nil {
		return err
	}
	v.restrict = true
	return nil
}

// wanted reports whether a process is compared. Samples need no target here.
func (v *Verifier) wanted(pid uint32) (*target.Target, bool) {
	return nil, !v.restrict || v.family.hasProcess(pid)
}

// Run compares stacks until ctx is done, and returns the result. It may be called once.
func (v *Verifier) Run(ctx context.Context) (*Report, error) {
	begun := time.Now()
	if err := v.sampler.Run(ctx, v.takeSample); err != nil {
		return nil, err
	}
	v.expire(^uint64(0))
	stats, err := v.sampler.Stats()
	if err != nil {
		return nil, err
	}
	report := v.results.report(time.Since(begun), v.sampler.Executable)
	report.Lost, report.Uncopied = stats.Lost[sampler.LostToFullLogs], stats.StacksUncopied
	report.ReferenceLost = v.reference.Lost()
	report.Errors = stats.Errors
	for _, l := range stats.Languages {
		report.Languages = append(report.Languages, Language(l))
	}
	return report, nil
}

// compareSnapshots compares the walks of a round whose snapshots came after them, and drops walks and snapshots that
// have waited too long.
func (v *Verifier) compareSnapshots(upTo uint64) error {
	lost, err := v.sampler.ReadSnapshots(func(c *kernel.PerfSnapshot) {
		if w := v.pairs.ofCopy(c); w != nil {
			v.compare(w, c)
		}
	})
	if err != nil {
		return err
	}
	v.results.lost = lost
	v.expire(upTo - uint64(time.Second))
	v.reference.Watch()
	return nil
}

// expire counts the walks from before a time whose copies are missing.
func (v *Verifier) expire(before uint64) {
	v.pairs.expire(before, func(w *walk) {
		v.results.unpaired++
		v.results.notChecked(w)
	})
}

// walk is a sample, kept until its copy comes.
type walk struct {
	time     uint64
	cpu, tid uint32
	pid      uint32
	comm     string
	outcome  unwind.Outcome
	finish   kernel.Finish
	frames   []kernel.Frame
	replaced bool // the process has executed another program since
}

// takeSample compares or keeps a sample, with its stack completed as for a profile.
func (v *Verifier) takeSample(s *sampler.Sample) error {
	w := &walk{
		time: s.Time, cpu: s.CPU, tid: s.TID, pid: s.PID, comm: s.Comm,
		outcome: s.Outcome, finish: s.Finish, frames: slices.Clone(s.User), replaced: v.sampler.Replaced(s),
	}
	v.results.taken(w)
	if c := v.pairs.ofWalk(w); c != nil {
		v.compare(w, c)
	}
	return nil
}

// compare compares a walk with the reference walk over its copy.
func (v *Verifier) compare(w *walk, c *kernel.PerfSnapshot) {
	switch {
	case !w.outcome.HasUserPart():
		return
	case w.replaced:
		v.results.skipWalk(w, "the process has started another program")
		return
	case !c.InUser:
		v.results.skipWalk(w, "perf recorded no registers")
		return
	}
	registers := make(map[uint64]uint64, len(c.Regs))
	for number, value := range c.Regs {
		registers[uint64(number)] = value
	}
	stack := v.reference.Walk(&reference.Sample{
		Time: c.Time, PID: c.PID, PC: c.PC, SP: c.SP(), Registers: registers, Stack: c.Stack, StackFull: c.Full,
	})
	v.results.addWalk(w, stack, comparer(v.judge.sameFrame).stacks(w.frames, w.outcome, &stack))
}

// Close stops sampling and releases all resources. Run must have returned, or never have been called.
func (v *Verifier) Close() error {
	if v.reference != nil {
		v.reference.Close()
	}
	if v.sampler != nil {
		return v.sampler.Close()
	}
	return nil
}
