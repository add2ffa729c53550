package kernel

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

// Mark is the place where a thread was found. Passes that find the thread there again add to Stayed, and need not
// report it.
type Mark struct {
	TID    uint32
	Stayed time.Duration // the sum of ReadMarked's intervals in which it was there
	Seen   bool          // the last ReadMarked has seen it there, and has not handed it over
}

// ReadMarked makes a pass over the threads of all programs of this host, except threads of unwanted processes. If a
// thread is still where Check found it, in the state in which it was last handed over, ReadMarked adds the interval to
// its Mark and counts the thread. It hands all other threads to use, which may mark threads.
func (t *Threads) ReadMarked(interval time.Duration, use func(*Thread)) (stayed int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes = max(1, t.passes+1)
	err = errors.Join(t.objects.Interval.Set(uint64(interval)), t.objects.Stayed.Set(uint32(0)))
	if err != nil {
		return 0, fmt.Errorf("scan threads: %w", err)
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
		return 0, fmt.Errorf("scan threads: %w", err)
	}
	t.listed = handed + int(n)
	return int(n), nil
}

// marksBuffer holds a batch of marks.
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

// Check makes a pass that hands threads to use as they are now: the threads that were next in the previous call,
// without registers and stacks, and the threads in next, with registers and stacks. It marks the threads in next at the
// place where use gets them. There may be marks of 16,384 threads, and briefly of some more.
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
	return t.readFiltered(filter{check: t.checks}, use)
}

// stateUnknown is STATE_UNKNOWN of bpf/abi/threads.h.
const stateUnknown = 1<<32 - 1

// MarkUnwanted has ReadMarked leave out a process until the next WantAll.
func (t *Threads) MarkUnwanted(pid uint32) error {
	if err := t.objects.UnwantedProcesses.Put(pid, t.unwanted+1); err != nil {
		return fmt.Errorf("mark process %d: %w", pid, err)
	}
	return nil
}

// Unmark removes the mark of a thread.
func (t *Threads) Unmark(tid uint32) error {
	if err := t.objects.Marks.Delete(tid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unmark thread %d: %w", tid, err)
	}
	return nil
}

// WantAll makes all processes wanted. Only one goroutine may call WantAll, MarkUnwanted, Check and ReadMarked.
func (t *Threads) WantAll() error {
	t.unwanted = (t.unwanted + 1) % (1<<32 - 2)
	return t.objects.Unwanted.Set(t.unwanted + 1)
}
