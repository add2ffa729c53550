package kernel

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

// Mark is where a thread was found to be: passes that find it there still add up for how long, and need not say so.
type Mark struct {
	TID    uint32
	Stayed time.Duration // the sum of ReadMarked's intervals that it was there for
	Seen   bool          // the last ReadMarked has seen it there, and has not handed it over
}

// ReadMarked makes a pass over the threads of all programs of this host, but for those that are marked as unwanted.
// Those that are where Check has found them, in the state that they were last handed over with, are credited with
// the interval by their Mark, and counted. It hands the others to use, which may mark threads.
func (t *Threads) ReadMarked(interval time.Duration, use func(*Thread)) (stayed int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes = max(1, t.passes+1)
	err = errors.Join(t.objects.Interval.Set(uint64(interval)), t.objects.Stayed.Set(uint32(0)))
	if err != nil {
		return 0, fmt.Errorf("look at threads: %w", err)
	}
	handed := 0
	err = t.readLocked(filter{pass: t.passes}, func(of *Thread) {
		handed++
		use(of)
	})
	if t.leaving != nil {
		err = errors.Join(err, t.setWatch(0))
	}
	if err != nil {
		return 0, err
	}
	var n uint32
	if err := t.objects.Stayed.Get(&n); err != nil {
		return 0, fmt.Errorf("look at threads: %w", err)
	}
	t.listed = handed + int(n)
	return int(n), nil
}

// marksBuffer has what is read of all marks at once.
type marksBuffer struct {
	tids  []uint32
	marks []threadsThreadMark
}

// ReadMarks hands all marks to use.
func (t *Threads) ReadMarks(use func(Mark)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &t.marks
	if b.tids == nil {
		n := t.objects.Marks.MaxEntries()
		b.tids, b.marks = make([]uint32, n), make([]threadsThreadMark, n)
	}
	var cursor ebpf.MapBatchCursor
	for {
		n, err := t.objects.Marks.BatchLookup(&cursor, b.tids, b.marks, nil)
		for i := range n {
			m := &b.marks[i]
			use(Mark{TID: b.tids[i], Stayed: time.Duration(min(m.Stayed, 1<<62)), Seen: m.Pass == t.passes})
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read marks of threads: %w", err)
		}
	}
}

// Check makes a pass that hands threads to use as they are now: those that were next in the call before, without
// registers and stacks, and next, with them. It marks next, which are then where use gets them. There may be marks of
// 16,384 threads, and some more for a while.
func (t *Threads) Check(next []*Thread, use func(*Thread)) error {
	t.checks = max(1, t.checks+1) % (1<<32 - 2)
	tids := t.checked
	t.checked = nil
	for _, of := range next {
		t.checked = append(t.checked, of.TID)
		mark := threadsThreadMark{State: stateUnknown, Check: t.checks + 1}
		if err := t.objects.Marks.Put(of.TID, &mark); err != nil {
			return fmt.Errorf("mark thread %d: %w", of.TID, err)
		}
	}
	if tids = append(tids, t.checked...); t.single && len(tids)*passedBy < t.listed {
		return t.readEach(filter{check: t.checks}, tids, use)
	}
	return t.read(filter{check: t.checks}, use)
}

// stateUnknown is STATE_UNKNOWN of bpf/threads.h.
const stateUnknown = 1<<32 - 1

// MarkUnwanted has ReadMarked leave out a process until the next WantAll.
func (t *Threads) MarkUnwanted(pid uint32) error {
	if err := t.objects.UnwantedProcesses.Put(pid, t.unwanted+1); err != nil {
		return fmt.Errorf("mark process %d: %w", pid, err)
	}
	return nil
}

// Unmark forgets where a thread is.
func (t *Threads) Unmark(tid uint32) error {
	if err := t.objects.Marks.Delete(tid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unmark thread %d: %w", tid, err)
	}
	return nil
}

// WantAll makes no process unwanted. It, MarkUnwanted, Check and ReadMarked are for one goroutine.
func (t *Threads) WantAll() error {
	t.unwanted = (t.unwanted + 1) % (1<<32 - 2)
	return t.objects.Unwanted.Set(t.unwanted + 1)
}
