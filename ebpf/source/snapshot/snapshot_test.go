package snapshot

import (
	"context"
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
)

// script is the result of passes over some threads, one after the other; the last one repeats.
type script struct {
	passes [][]kernel.Thread
	read   int
	walked map[uint32]int
}

func (s *script) Read(_, tid uint32, use func(*kernel.Thread)) error {
	now := s.passes[min(s.read, len(s.passes)-1)]
	s.read++
	if now == nil {
		return errors.New("no more")
	}
	for _, t := range now {
		if tid == 0 || tid == t.TID {
			use(&t)
		}
	}
	return nil
}

func (s *script) CompleteThread(t *kernel.Thread, _ sampler.ThreadMemory) *sampler.Sample {
	s.walked[t.TID]++
	return &sampler.Sample{Sample: &kernel.Sample{TID: t.TID, Outcome: unwind.Complete, Regs: t.Regs}}
}

func (s *script) Memory(uint32) language.Memory { return nil }

func thread(tid uint32, state kernel.ThreadState, switches uint64) kernel.Thread {
	return kernel.Thread{PID: 1, TID: tid, State: state, Switches: switches, Regs: unwind.Regs{PC: 100*switches + 1}}
}

func take(t *testing.T, tid uint32, passes ...[]kernel.Thread) (map[uint32]*Stack, *script) {
	t.Helper()
	s := &script{passes: passes, walked: map[uint32]int{}}
	stacks, err := takeBlocked(context.Background(), s, s, 1, tid)
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint32]*Stack{}
	for _, stack := range stacks {
		out[stack.TID] = stack
	}
	return out, s
}

// A stack is whole only if the thread was on no CPU between the two passes; otherwise it is read again, with the
// registers of the later pass.
func TestMovedThreadsAreReadAgain(t *testing.T) {
	const s, r = kernel.Sleeping, kernel.Running
	got, script := take(t, 0,
		[]kernel.Thread{thread(1, s, 5), thread(2, s, 1), thread(3, r, 1), thread(4, s, 1), thread(5, s, 1)},
		[]kernel.Thread{thread(1, s, 5), thread(2, s, 2), thread(3, r, 1), thread(4, r, 1), thread(6, s, 9)},
		[]kernel.Thread{thread(1, s, 5), thread(2, s, 2), thread(3, s, 2), thread(4, r, 1), thread(6, s, 9)},
		[]kernel.Thread{thread(1, s, 5), thread(2, s, 2), thread(3, s, 2), thread(4, r, 1), thread(6, s, 9)},
	)
	if len(got) != 5 || got[5] != nil {
		t.Fatalf("threads %v; 5 has ended, and 6 is new", got)
	}
	for tid, want := range map[uint32]struct {
		pc    uint64
		reads int
	}{1: {501, 1}, 2: {201, 2}, 3: {201, 1}, 6: {901, 1}} {
		if !got[tid].Whole() || got[tid].Sample.Regs.PC != want.pc || script.walked[tid] != want.reads {
			t.Errorf("thread %d: whole %v, pc %d, read %d times; want %+v", tid, got[tid].Whole(),
				got[tid].Sample.Regs.PC, script.walked[tid], want)
		}
	}
	if got[4].Whole() || !got[4].Torn || script.walked[4] != 1 {
		t.Errorf("thread 4 ran since it was read: %+v, read %d times", got[4], script.walked[4])
	}
}

// A thread that never stays is given up, and reported as torn.
func TestRestlessThreadIsTorn(t *testing.T) {
	var passes [][]kernel.Thread
	for n := range uint64(100) {
		passes = append(passes, []kernel.Thread{thread(1, kernel.Sleeping, n), thread(2, kernel.Running, 7)})
	}
	got, script := take(t, 0, passes...)
	if !got[1].Torn || got[1].Whole() || script.walked[1] != maxTries {
		t.Errorf("it is %+v, read %d times", got[1], script.walked[1])
	}
	if got[2].Sample != nil || got[2].Whole() || got[2].State != kernel.Running {
		t.Errorf("a thread that runs is %+v", got[2])
	}
}

// A different thread may have the ID of a thread that was read.
func TestAnotherThreadOfTheSameID(t *testing.T) {
	first, second := thread(1, kernel.Sleeping, 3), thread(1, kernel.Sleeping, 3)
	first.Started, second.Started = 10, 20
	got, _ := take(t, 1, []kernel.Thread{first}, []kernel.Thread{second})
	if !got[1].Whole() || got[1].Started != 20 {
		t.Errorf("the stack is of %+v", got[1])
	}
}

func TestNoThread(t *testing.T) {
	ended := thread(1, kernel.Ended, 1)
	s := &script{passes: [][]kernel.Thread{{ended}}}
	if _, err := takeBlocked(context.Background(), s, s, 1, 0); !errors.Is(err, ErrGone) {
		t.Errorf("error %v, want %v", err, ErrGone)
	}
}

// Many threads are read some at a time, each with the registers of a pass just before.
func TestManyThreads(t *testing.T) {
	var all []kernel.Thread
	for tid := range uint32(10 * threadsAtOnce) {
		all = append(all, thread(tid+1, kernel.Sleeping, 1))
	}
	got, script := take(t, 0, all)
	for tid, s := range got {
		if !s.Whole() || script.walked[tid] != 1 {
			t.Errorf("thread %d: whole %v, read %d times", tid, s.Whole(), script.walked[tid])
		}
	}
	if len(got) != len(all) || script.read != 11 {
		t.Errorf("%d threads in %d passes", len(got), script.read)
	}
}
