package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// MarkAndCheck notes where threads of one process are: their stacks were read when they had their Started and Switches.
// It hands them to use as they are now, without registers and stacks. Marks may be forgotten at any time.
func (t *Threads) MarkAndCheck(threads []*Thread, use func(*Thread)) error {
	if len(threads) == 0 {
		return nil
	}
	t.checks = max(1, t.checks+1)
	for _, of := range threads {
		err := t.mark(of.TID, threadsThreadMark{Started: of.Started, Switches: of.Switches, Check: t.checks})
		if err != nil {
			return err
		}
	}
	return t.read(filter{pid: threads[0].PID, check: t.checks}, use)
}

// MarkUnwanted has ReadMarked leave out a thread until the next WantAll.
func (t *Threads) MarkUnwanted(of *Thread) error {
	return t.mark(of.TID, threadsThreadMark{Started: of.Started, Unwanted: t.unwanted + 1})
}

func (t *Threads) mark(tid uint32, mark threadsThreadMark) error {
	if err := t.objects.Marks.Put(tid, &mark); err != nil {
		return fmt.Errorf("mark thread %d: %w", tid, err)
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

// WantAll makes no thread unwanted. It, MarkUnwanted, MarkAndCheck and ReadMarked are for one goroutine.
func (t *Threads) WantAll() error {
	t.unwanted = (t.unwanted + 1) % (1<<32 - 2)
	return t.objects.Unwanted.Set(t.unwanted + 1)
}
