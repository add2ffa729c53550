// Package snapshot takes the stacks of all threads of a process now, without stopping it.
//
// A pass over the threads reads the registers and the kernel stack of each, and how often it has left a CPU. The user
// stack is read afterwards, from the process's memory. Both belong together if the next pass shows that the thread has
// not been on a CPU in between; otherwise the thread is read again. Threads that run, or that move too fast for that,
// are sampled by the CPU clock, which interrupts them where they are.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/sampler"
)

// Stack is the stack of one thread.
type Stack struct {
	kernel.Thread                 // when the stack was taken; its Kernel is nil
	Sample        *sampler.Sample // nil if the thread could not be read
	Torn          bool            // the thread ran while its stack was read: frames may be of different moments
	Tries         int             // how often it was read
}

// Whole reports whether the stack is complete, and is one that the thread had at one moment.
func (s *Stack) Whole() bool {
	return s.Sample != nil && !s.Torn && (s.Sample.Outcome.Complete() || !s.Sample.Outcome.HasUserPart())
}

// ErrGone reports that there is no such process or thread, or that it has ended since.
var ErrGone = errors.New("no such process or thread")

// passes makes passes over threads; *kernel.Threads implements it.
type passes interface {
	Read(pid, tid uint32, use func(*kernel.Thread)) error
}

// completer walks stacks; *sampler.Sampler implements it.
type completer interface {
	CompleteThread(t *kernel.Thread, m sampler.ThreadMemory) *sampler.Sample
	Memory(pid uint32) language.Memory
}

const (
	// maxTries is how often a thread is read: a thread that blocks from time to time is met between two of its runs.
	maxTries = 12
	// threadsAtOnce is how many stacks are read between two passes. The smaller it is, the less time a thread has to
	// move.
	threadsAtOnce = 16
)

// reader reads the threads of one process until it has all of their stacks.
type reader struct {
	passes    passes
	completer completer
	pid, tid  uint32 // tid 0 means all threads

	threads map[uint32]*Stack // by TID
	read    []*Stack          // since the last pass, to be checked by the next one
}

// takeBlocked takes the stacks of the threads that are on no CPU long enough to be read. Other threads have a stack
// without a Sample, or a torn one.
func takeBlocked(ctx context.Context, p passes, c completer, pid, tid uint32) ([]*Stack, error) {
	r := reader{passes: p, completer: c, pid: pid, tid: tid, threads: map[uint32]*Stack{}}
	for {
		now, err := r.passThreads()
		if err != nil {
			return nil, err
		}
		r.check(now)
		if len(now) == 0 {
			return nil, ErrGone
		}
		next := r.nextThreads(now)
		if len(next) == 0 || ctx.Err() != nil {
			return r.stacks(), ctx.Err()
		}
		for _, t := range next {
			r.takeThread(t)
		}
	}
}

// passThreads makes a pass over all threads.
func (r *reader) passThreads() (map[uint32]*kernel.Thread, error) {
	now := map[uint32]*kernel.Thread{}
	err := r.passes.Read(r.pid, r.tid, func(t *kernel.Thread) {
		if t.State == kernel.Ended {
			return
		}
		kept := *t
		kept.Kernel = slices.Clone(t.Kernel)
		now[t.TID] = &kept
	})
	return now, err
}

// check decides whether the stacks read since the last pass are torn, and forgets threads that have ended.
func (r *reader) check(now map[uint32]*kernel.Thread) {
	for _, s := range r.read {
		t := now[s.TID]
		s.Torn = t == nil || Moved(&s.Thread, t)
	}
	r.read = r.read[:0]
	for tid, s := range r.threads {
		if t := now[tid]; t == nil || t.Started != s.Started {
			delete(r.threads, tid)
		}
	}
}

// Moved reports whether a thread has been on a CPU between two passes.
func Moved(before, after *kernel.Thread) bool {
	return before.State == kernel.Running || after.State == kernel.Running ||
		before.Switches != after.Switches || before.Started != after.Started
}

// nextThreads returns the threads to read now, the least often tried ones first.
func (r *reader) nextThreads(now map[uint32]*kernel.Thread) (next []*kernel.Thread) {
	for tid, t := range now {
		s := r.threads[tid]
		switch {
		case s == nil:
			next = append(next, t)
		case s.Tries < maxTries && (s.Sample == nil || s.Torn):
			next = append(next, t)
		}
	}
	tries := func(t *kernel.Thread) int {
		if s := r.threads[t.TID]; s != nil {
			return s.Tries
		}
		return 0
	}
	slices.SortFunc(next, func(a, b *kernel.Thread) int {
		return cmp.Or(cmp.Compare(tries(a), tries(b)), cmp.Compare(a.TID, b.TID))
	})
	return next[:min(len(next), threadsAtOnce)]
}

// takeThread reads the stack of a thread as the last pass saw it, unless the thread runs.
func (r *reader) takeThread(t *kernel.Thread) {
	s := r.threads[t.TID]
	if s == nil {
		s = &Stack{}
		r.threads[t.TID] = s
	}
	s.Tries++
	if t.State == kernel.Running {
		if s.Sample == nil {
			s.Thread = *t
		}
		return
	}
	s.Sample = r.completer.CompleteThread(t, newMemory(r.completer.Memory(t.PID), t))
	s.Thread = *t
	s.Kernel = nil // the sample has it
	r.read = append(r.read, s)
}

// stacks returns all stacks, the first thread of the process first.
func (r *reader) stacks() (out []*Stack) {
	for _, s := range r.threads {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Stack) int { return cmp.Compare(a.TID, b.TID) })
	return out
}
