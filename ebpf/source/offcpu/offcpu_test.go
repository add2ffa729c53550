package offcpu

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
)

const pid = 7

// host has threads, which a test changes between passes.
type host struct {
	now     uint64
	threads []kernel.Thread
	check   func() // called before a check
	failing bool
	waits   time.Duration   // time before a pass gets the threads
	handed  int             // number of threads that passes got
	checked map[uint32]bool // threads that were next in the last check
	read    map[uint32]int  // stacks read, by thread
	marks   map[uint32]*mark
	wakers  []kernel.Waker // not read yet
	watched bool           // wakers are wanted
	lost    uint64
	caught  uint64 // time of the last CatchUp
	got     []credit
	leaving map[uint32]bool // threads whose stacks are copied until the next pass, if set
	copied  map[uint32]bool // threads whose stacks were copied
	late    bool            // walks need more memory than was copied
}

// mark is the host's data about a thread that a clock has marked.
type mark struct {
	kernel.Thread
	state kernel.ThreadState // in which the thread was handed over
	kernel.Mark
}

// credit is time of a thread that a clock reports.
type credit struct {
	tid     uint32
	pc      uint64
	state   kernel.ThreadState
	outcome unwind.Outcome
	d       time.Duration
	waker   string
}

func (h *host) Read(pid, tid uint32, use func(*kernel.Thread)) error {
	if h.failing {
		return errors.New("no threads today")
	}
	for _, t := range h.threads {
		t.Time = h.now
		if (pid == 0 || t.PID == pid) && (tid == 0 || t.TID == tid) {
			use(&t)
		}
	}
	return nil
}

func (h *host) ReadMarked(interval time.Duration, use func(*kernel.Thread)) (stayed int, err error) {
	for _, m := range h.marks {
		m.Seen = false
	}
	time.Sleep(h.waits)
	err = h.Read(0, 0, func(t *kernel.Thread) {
		t.Copied = h.copied[t.TID]
		m := h.marks[t.TID]
		if m != nil && m.Started == t.Started && m.Switches == t.Switches && t.State != kernel.Running {
			if m.state == t.State {
				m.Seen = true
				m.Mark.Stayed += interval
				stayed++
				return
			}
			m.state = t.State
			t.Unmoved, t.Regs = true, unwind.Regs{}
		}
		if m != nil {
			t.Stayed = m.Mark.Stayed
		}
		h.handed++
		use(t)
	})
	h.leaving = nil
	return stayed, err
}

func (h *host) WatchLeaving(tids []uint32) error {
	h.leaving, h.copied = map[uint32]bool{}, map[uint32]bool{}
	for _, tid := range tids {
		h.leaving[tid] = true
	}
	return nil
}

func (h *host) CopiedStack(of *kernel.Thread) (*kernel.StackCopy, error) {
	if !h.copied[of.TID] {
		return nil, nil
	}
	return &kernel.StackCopy{}, nil
}

func (h *host) ReadMarks(use func(kernel.Mark)) error {
	for tid, m := range h.marks {
		m.Mark.TID = tid
		use(m.Mark)
	}
	return nil
}

func (h *host) Check(next []*kernel.Thread, use func(*kernel.Thread)) error {
	if h.check != nil {
		h.check()
	}
	had := h.checked
	h.checked = map[uint32]bool{}
	for _, t := range next {
		h.checked[t.TID] = true
	}
	return h.Read(0, 0, func(t *kernel.Thread) {
		if h.checked[t.TID] {
			h.marks[t.TID] = &mark{Thread: *t, state: kernel.Ended}
			use(t)
		} else if had[t.TID] {
			use(t)
		}
	})
}

func (h *host) Unmark(tid uint32) error {
	delete(h.marks, tid)
	return nil
}

func (h *host) MarkUnwanted(uint32) error { return nil }
func (h *host) WantAll() error            { return nil }

func (h *host) WatchWakers() error {
	if h.failing {
		return errors.New("no wakers today")
	}
	h.watched = true
	return nil
}

func (h *host) IgnoreWakers() error {
	h.watched = false
	return nil
}

func (h *host) ReadWakers(use func(*kernel.Waker)) (lost uint64, err error) {
	for _, w := range h.wakers {
		use(&w)
	}
	h.wakers = nil
	return h.lost, nil
}

func (h *host) CompleteThread(t *kernel.Thread, m sampler.ThreadMemory) *sampler.Sample {
	h.read[t.TID]++
	if h.late {
		m.ReadU64(0)
	}
	if t.Outcome != unwind.Unset {
		return &sampler.Sample{Sample: &kernel.Sample{PID: t.PID, TID: t.TID, Outcome: t.Outcome}}
	}
	return &sampler.Sample{Sample: &kernel.Sample{
		PID: t.PID, TID: t.TID, Outcome: unwind.Complete, Regs: t.Regs, User: []kernel.Frame{{Vaddr: t.Regs.PC}},
	}}
}

func (h *host) Memory(uint32) language.Memory { return none{} }

// none is memory that cannot be read.
type none struct{ language.Memory }

func (none) ReadAt([]byte, int64) (int, error) { return 0, errors.New("no memory") }

func (h *host) CatchUp(until uint64) error {
	h.caught = max(h.caught, until)
	return nil
}

func (h *host) use(s *sampler.Sample) {
	c := credit{tid: s.TID, state: s.Thread.State, outcome: s.Outcome, d: time.Duration(s.Value)}
	if s.Waker != nil {
		c.waker = s.Waker.ByComm
	}
	if len(s.User) > 0 {
		c.pc = s.User[0].Vaddr
	}
	if s.Kind != kind.OffCPU {
		panic("a sample of " + s.Kind.String())
	}
	h.got = append(h.got, c)
}

// set puts a thread at the place that its number of switches stands for.
func (h *host) set(tid uint32, state kernel.ThreadState, switches uint64) {
	t := kernel.Thread{PID: pid, TID: tid, State: state, Switches: switches, Queued: -1}
	t.Regs.PC = 100 * switches
	if h.leaving[tid] && state != kernel.Running {
		h.copied[tid] = true
	}
	for i := range h.threads {
		if h.threads[i].TID == tid {
			h.threads[i] = t
			return
		}
	}
	h.threads = append(h.threads, t)
}

func newClock(h *host) *Clock {
	h.now, h.read, h.marks = uint64(time.Hour), map[uint32]int{}, map[uint32]*mark{}
	return New(Options{
		Passes: h, Completer: h, Use: h.use,
		Target: func(p uint32) (*target.Target, bool) { return nil, p == pid },
		now:    func() uint64 { return h.now },
	})
}

// pass makes a pass some time after the last one.
func (h *host) pass(t testing.TB, c *Clock, after time.Duration) {
	t.Helper()
	h.now += uint64(after)
	if err := c.Pass(); err != nil {
		t.Fatal(err)
	}
}

// sum adds up credits.
func (h *host) sum() (d time.Duration) {
	for _, c := range h.got {
		d += c.d
	}
	return d
}

// A thread that stays is read once, gets the measured time, and is handed over once.
func TestThreadThatStays(t *testing.T) {
	h := &host{}
	h.set(1, kernel.Sleeping, 5)
	h.threads = append(h.threads, kernel.Thread{PID: 8, TID: 8, State: kernel.Sleeping}) // not watched
	c := newClock(h)
	for _, d := range []time.Duration{0, 100, 150, 70} {
		h.pass(t, c, d)
	}
	if len(h.got) != 0 || h.read[1] != 1 || h.read[8] != 0 {
		t.Fatalf("credits %v, read %v", h.got, h.read)
	}
	c.Flush()
	c.Flush()
	if want := (credit{1, 500, kernel.Sleeping, unwind.Complete, 320, ""}); len(h.got) != 1 || h.got[0] != want {
		t.Errorf("credits %v, want %v", h.got, want)
	}
	if s := c.Stats(); s.Passes != 4 || s.Threads != 1 || s.Kept != 1 || s.Read != 1 || s.Time["sleeping"] != 320 {
		t.Errorf("stats %+v", s)
	}
}

// TestNewProcess: Target is asked about a new process after the clock has caught up with it.
func TestNewProcess(t *testing.T) {
	h := &host{}
	c := newClock(h)
	const child, began = 9, 50
	c.options.Target = func(p uint32) (*target.Target, bool) { return nil, p == child && h.caught >= began }
	h.threads = append(h.threads, kernel.Thread{PID: child, TID: child, State: kernel.Sleeping, Time: began})
	for range 3 {
		h.pass(t, c, 100)
	}
	c.Flush()
	if d := h.sum(); d != 200 {
		t.Errorf("%d ns of 200 are credited", d)
	}
}

// TestLastPass: the time until the end of Run is credited.
func TestLastPass(t *testing.T) {
	h := &host{}
	h.set(1, kernel.Sleeping, 5)
	c := newClock(h)
	h.pass(t, c, 0)
	h.now += 100
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Run(ctx, func() float64 { h.now += 1000; return 1 }) // after its first pass
	if d := h.sum(); d != 1100 {
		t.Errorf("%d ns of 1100 are credited", d)
	}
}

// Time is credited to the place of the thread, by its state. A thread that was woken and has not run yet is in the same
// place.
func TestThreadThatMoves(t *testing.T) {
	h := &host{}
	c := newClock(h)
	for _, at := range []struct {
		state    kernel.ThreadState
		switches uint64
	}{{kernel.Sleeping, 1}, {kernel.Sleeping, 1}, {kernel.Runnable, 1}, {kernel.Running, 1}, {kernel.Uninterruptible, 2}} {
		h.set(1, at.state, at.switches)
		h.pass(t, c, 10)
	}
	h.threads = nil // it ends
	h.pass(t, c, 10)
	want := []credit{
		{1, 100, kernel.Sleeping, unwind.Complete, 10, ""},
		{1, 100, kernel.Runnable, unwind.Complete, 10, ""},
		{1, 200, kernel.Uninterruptible, unwind.Complete, 10, ""},
	}
	if len(h.got) != len(want) || h.got[0] != want[0] || h.got[1] != want[1] || h.got[2] != want[2] {
		t.Errorf("credits %v, want %v", h.got, want)
	}
	s := c.Stats()
	if s.Kept != 0 || s.Threads != 0 || s.Read != 2 || s.Time["running"] != 10 {
		t.Errorf("stats %+v", s)
	}
}

// The frames of a thread that runs while it is read are left out, but not its time; then the thread is read again.
func TestThreadThatMovesWhileItIsRead(t *testing.T) {
	h := &host{}
	h.set(1, kernel.Sleeping, 1)
	c := newClock(h)
	h.pass(t, c, 10)
	h.set(1, kernel.Sleeping, 2)
	h.check = func() { h.set(1, kernel.Sleeping, h.threads[0].Switches+1) }
	h.pass(t, c, 10)
	h.check = nil
	h.set(1, kernel.Sleeping, 3)
	h.pass(t, c, 10)
	c.Flush()
	if len(h.got) != 2 || h.got[0] != (credit{1, 0, kernel.Sleeping, unwind.Moved, 10, ""}) ||
		h.got[1] != (credit{1, 300, kernel.Sleeping, unwind.Complete, 10, ""}) {
		t.Errorf("credits %v", h.got)
	}
	if s := c.Stats(); s.Dropped != 1 || s.Read != 3 || s.Time["sleeping"] != 20 {
		t.Errorf("stats %+v", s)
	}
}

// A thread that has moved before it is read counts at its new place, unless it runs.
func TestThreadThatMovesBeforeItIsRead(t *testing.T) {
	for _, test := range []struct {
		now  kernel.ThreadState
		want credit
	}{
		{kernel.Uninterruptible, credit{1, 300, kernel.Uninterruptible, unwind.Complete, 10, ""}},
		{kernel.Running, credit{1, 0, kernel.Sleeping, unwind.Moved, 10, ""}},
	} {
		h := &host{}
		h.set(1, kernel.Sleeping, 1)
		c := newClock(h)
		h.pass(t, c, 10)
		h.set(1, kernel.Sleeping, 2)
		h.check = func() { h.set(1, test.now, 3) }
		h.pass(t, c, 10)
		c.Flush()
		if len(h.got) != 1 || h.got[0] != test.want {
			t.Errorf("%s: credits %v, want %v", test.now, h.got, test.want)
		}
	}
}

// A thread that moves before its stack is read counts at the place of the copied stack, if the walk needed no other
// memory: it was watched, as it had moved at the pass before.
func TestThreadWhoseStackWasCopied(t *testing.T) {
	for late, want := range map[bool]credit{
		false: {1, 200, kernel.Sleeping, unwind.Complete, 10, ""},
		true:  {1, 0, kernel.Sleeping, unwind.Moved, 10, ""},
	} {
		h := &host{late: late}
		h.set(1, kernel.Sleeping, 1)
		h.set(2, kernel.Sleeping, 1)
		c := newClock(h)
		h.pass(t, c, 10)
		h.pass(t, c, 10) // thread 2 stays from now on
		h.set(1, kernel.Running, 1)
		h.pass(t, c, 10)
		for range restlessFor {
			h.pass(t, c, 10) // thread 2 is not restless after these
		}
		if err := c.watch(); err != nil || len(h.leaving) != 1 || !h.leaving[1] {
			t.Fatalf("%v: watched are %v", err, h.leaving)
		}
		h.set(1, kernel.Sleeping, 2)
		h.check = func() { h.set(1, kernel.Sleeping, h.threads[0].Switches+1) }
		h.got = nil
		h.pass(t, c, 10)
		if len(h.got) != 1 || h.got[0] != want {
			t.Errorf("late %v: credits %v, want %v", late, h.got, want)
		}
	}
}

// Of many restless threads, the watched ones stand for all; threads that were not restless have their own.
func TestSubsetOfRestlessThreads(t *testing.T) {
	const threads, reads, passes = 40, 8, 100
	h := &host{}
	c := newClock(h)
	c.options.MaxReads = reads
	moved := 0
	for n := range uint64(passes) {
		if err := c.watch(); err != nil {
			t.Fatal(err)
		}
		for tid := range uint32(threads) {
			h.set(tid+1, kernel.Sleeping, n)
		}
		h.check = func() { // all move before they are read
			for tid := range uint32(threads) {
				h.threads[tid].Switches++
				h.threads[tid].State = kernel.Running
			}
		}
		h.got = nil
		h.pass(t, c, 11)
		for _, got := range h.got {
			if got.outcome == unwind.Moved && n > 0 {
				moved++
			}
		}
		if want := time.Duration(threads * 11); n > 0 && h.sum() != want {
			t.Fatalf("%v in all, want %v", h.sum(), want)
		}
	}
	if moved > 0 || len(h.read) != threads {
		t.Errorf("%d stacks have moved; %d threads were read", moved, len(h.read))
	}
}

// A random subset of the threads that move stands for all: the sum of time is the same, and no thread is always left
// out.
func TestSubset(t *testing.T) {
	const threads, reads, passes = 40, 7, 200
	h := &host{}
	c := newClock(h)
	c.options.MaxReads = reads
	for n := range uint64(passes + 1) {
		for tid := range uint32(threads) {
			h.set(tid+1, kernel.Sleeping, n)
		}
		h.pass(t, c, 11)
	}
	c.Flush()
	if want := time.Duration(threads * passes * 11); h.sum() != want || c.Stats().Time["sleeping"] != uint64(want) {
		t.Errorf("%v in all, and %+v; want %v", h.sum(), c.Stats(), want)
	}
	if s := c.Stats(); s.Read != reads*(passes+1) || s.Unread != (threads-reads)*(passes+1) || len(h.read) != threads {
		t.Errorf("stats %+v; %d threads read", s, len(h.read))
	}
}

// The stacks of as many threads as the limit are kept; stacks of further threads are read each time.
func TestMaxThreads(t *testing.T) {
	h := &host{}
	for tid := range uint32(30) {
		h.set(tid+1, kernel.Sleeping, 1)
	}
	c := newClock(h)
	c.options.MaxThreads = 10
	for range 3 {
		h.pass(t, c, 10)
	}
	c.Flush()
	if s := c.Stats(); s.Kept != 10 || s.Read != 30+20+20 || h.sum() != 30*20 {
		t.Errorf("%v in all, and %+v", h.sum(), s)
	}
}

// A thread ID may belong to a different thread later.
func TestAnotherThreadOfTheSameID(t *testing.T) {
	h := &host{}
	h.set(1, kernel.Sleeping, 1)
	c := newClock(h)
	h.pass(t, c, 10)
	h.threads[0].Started = 99
	h.pass(t, c, 10)
	if h.read[1] != 2 {
		t.Errorf("read %d times, want 2", h.read[1])
	}
}

// After a failed pass, no thread is credited with the time until the next one.
func TestPassFails(t *testing.T) {
	h := &host{}
	h.set(1, kernel.Sleeping, 1)
	c := newClock(h)
	h.pass(t, c, 10)
	h.failing = true
	if c.Pass() == nil {
		t.Error("no error")
	}
	h.failing = false
	h.pass(t, c, 1000)
	h.pass(t, c, 10)
	c.Flush()
	if h.sum() != 10 || h.read[1] != 1 {
		t.Errorf("credits %v, read %v", h.got, h.read)
	}
}

// A pass does not get threads that stay, except the first pass after they were read: the host adds up their time.
func TestThreadsThatStayAreNotHandedOver(t *testing.T) {
	const threads, passes = 50, 20
	h := &host{}
	for tid := range uint32(threads) {
		h.set(tid+1, kernel.Sleeping, 1)
	}
	c := newClock(h)
	for range passes {
		h.pass(t, c, 10)
	}
	if h.handed != 2*threads {
		t.Errorf("passes were given threads %d times, want %d", h.handed, 2*threads)
	}
	h.threads = h.threads[:threads-1] // one ends
	h.set(1, kernel.Running, 1)
	h.pass(t, c, 10)
	if len(h.got) != 2 || h.got[0].d != (passes-1)*10 || h.got[1].d != (passes-1)*10 {
		t.Errorf("credits %v, want all time of two threads", h.got)
	}
	c.Flush()
	s := c.Stats()
	want := time.Duration(threads*(passes-1)*10 + (threads-2)*10)
	if h.sum() != want || s.Time["sleeping"] != uint64(want) {
		t.Errorf("%v in all, and %+v; want %v", h.sum(), s, want)
	}
	if s.Time["running"] != 10 || s.Threads != threads-1 || s.Kept != threads-2 || len(h.marks) != threads-2 {
		t.Errorf("%+v, and %d marks", s, len(h.marks))
	}
}

// Time is credited to the target that a process has when it is handed over, and no time to a process that is no longer
// wanted.
func TestTargetChanges(t *testing.T) {
	old, now := target.Of(map[string]string{"service_name": "old"}), target.Of(map[string]string{"service_name": "now"})
	current, wanted := old, true
	got := map[*target.Target]time.Duration{}
	h := &host{}
	h.set(1, kernel.Sleeping, 1)
	c := newClock(h)
	c.options.Target = func(uint32) (*target.Target, bool) { return current, wanted }
	c.options.Use = func(s *sampler.Sample) { got[s.Target] += time.Duration(s.Value) }
	h.pass(t, c, 10)
	h.pass(t, c, 10)
	c.Flush()
	current = now
	h.pass(t, c, 10) // after Flush, Target is asked
	h.pass(t, c, askAgain)
	current = old
	h.pass(t, c, askAgain) // and from time to time, with the time until now
	wanted = false
	h.pass(t, c, askAgain)
	h.pass(t, c, 10)
	c.Flush()
	if got[old] != 10+askAgain || got[now] != 10+askAgain || len(h.marks) != 0 || c.Stats().Threads != 0 {
		t.Errorf("times %v, %d marks, %+v", got, len(h.marks), c.Stats())
	}
}

// A mark of a thread that the clock does not know is removed.
func TestStrangeMark(t *testing.T) {
	h := &host{}
	h.set(1, kernel.Sleeping, 1)
	c := newClock(h)
	h.marks[1] = &mark{Thread: h.threads[0], state: kernel.Sleeping}
	h.pass(t, c, 10)
	h.pass(t, c, 10)
	h.pass(t, c, 10)
	c.Flush()
	if h.read[1] != 1 || h.sum() != 20 {
		t.Errorf("read %v, credits %v", h.read, h.got)
	}
}

// Only the CPU time of a pass that finds nearly all threads in their place counts as looking.
func TestLooking(t *testing.T) {
	c := New(Options{Passes: &host{}})
	for _, test := range []struct {
		handed, kept int
		asking       bool
		want         time.Duration
	}{{100, 0, true, 0}, {20, 90, false, 0}, {10, 100, false, 3}, {10, 100, true, 3}, {50, 50, false, 0}} {
		p := pass{Clock: c, handed: test.handed, kept: test.kept, asking: test.asking}
		p.looking(3)
		if c.looked != test.want {
			t.Errorf("%+v: %d", test, c.looked)
		}
	}
}

// Time that a pass waits, for a CPU or for memory, does not count.
func TestPassThatWaits(t *testing.T) {
	const waits = 50 * time.Millisecond
	h := &host{waits: waits}
	c := New(Options{Passes: h})
	if err := c.Pass(); err != nil {
		t.Fatal(err)
	}
	if c.took <= 0 || c.took > waits/2 {
		t.Errorf("a pass that waited %v took %v", waits, c.took)
	}
}

// Passes in which threads have not moved take no more than a quarter of the share of passes.
func TestPeriod(t *testing.T) {
	c := New(Options{Passes: &host{}, MaxShare: 0.04})
	c.passes, c.took = 1, time.Second
	if got := c.period(10); got != 1e8 {
		t.Errorf("after the first pass: %v", got)
	}
	c.passes++
	for _, test := range []struct{ took, looked, want time.Duration }{
		{time.Millisecond, 500 * time.Microsecond, 100 * time.Millisecond},
		{8 * time.Millisecond, 500 * time.Microsecond, 200 * time.Millisecond},
		{8 * time.Millisecond, 5 * time.Millisecond, 500 * time.Millisecond},
	} {
		c.took, c.looked = test.took, test.looked
		if got := time.Duration(c.period(10)).Round(time.Microsecond); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// queued puts a thread at the place that its number of switches stands for, with the time in the queue that the kernel
// has counted.
func (h *host) queued(tid uint32, state kernel.ThreadState, switches uint64, queued time.Duration) {
	h.set(tid, state, switches)
	h.threads[slices.IndexFunc(h.threads, func(t kernel.Thread) bool { return t.TID == tid })].Queued = queued
}

// TestDisplacedThread: each look finds a thread in the queue, as the reader has displaced it from its CPU. The thread
// gets the time that the kernel has counted, and the rest is for running.
func TestDisplacedThread(t *testing.T) {
	for _, known := range []bool{true, false} {
		h := &host{}
		c := newClock(h)
		h.queued(1, kernel.Runnable, 1, 100)
		h.pass(t, c, 10)
		const ms = time.Millisecond
		for n := range uint64(20) {
			h.queued(1, kernel.Runnable, n+2, 100+time.Duration(n+1)*ms)
			h.threads[0].Displaced = known
			h.pass(t, c, 10*ms)
		}
		c.Flush()
		for _, got := range h.got {
			if got.state != kernel.Runnable || got.pc == 0 {
				t.Errorf("credit %+v", got)
			}
		}
		s := c.Stats()
		if h.sum() != 20*ms || s.Time["runnable"] != uint64(20*ms) || s.Time["running"] != uint64(180*ms) {
			t.Errorf("known %v: %v is credited, and %v; want 20 ms, and 180 of running", known, h.sum(), s.Time)
		}
	}
}

// TestQueuedThread: a thread that is queued for longer than a pass gets its time during that, and in total the time
// that the kernel has counted at the end. If it is queued for moments, the places that looks have found get all of the
// time.
func TestQueuedThread(t *testing.T) {
	h := &host{}
	c := newClock(h)
	h.queued(1, kernel.Sleeping, 1, 0)
	h.queued(2, kernel.Sleeping, 1, 0)
	h.pass(t, c, 10)
	h.pass(t, c, 10)
	for range 4 {
		h.queued(1, kernel.Runnable, 1, 0)
		h.pass(t, c, 10)
	}
	c.Flush()
	if d := h.sumOf(1, kernel.Runnable); d != 30 {
		t.Errorf("%v of being queued after three passes there", d)
	}
	h.queued(1, kernel.Running, 1, 43)
	h.pass(t, c, 10)
	h.queued(2, kernel.Running, 2, 5) // was queued for a moment, unseen
	h.queued(1, kernel.Sleeping, 2, 43)
	h.pass(t, c, 10)
	h.queued(2, kernel.Runnable, 3, 7)
	h.pass(t, c, 10)
	h.queued(2, kernel.Running, 3, 11)
	h.pass(t, c, 10)
	c.Flush()
	if one, two := h.sumOf(1, kernel.Runnable), h.sumOf(2, kernel.Runnable); one != 43 || two != 11 {
		t.Errorf("queued for %v and %v, want 43 and 11 ns", one, two)
	}
	if s := c.Stats(); s.Time["runnable"] != 43+11 ||
		s.Time["runnable"]+s.Time["running"]+s.Time["sleeping"] != 2*9*10 {
		t.Errorf("times %v", s.Time)
	}
}

// TestQueuedAgain: each time that a thread is queued for longer than a pass counts once, also after it was queued in
// another place.
func TestQueuedAgain(t *testing.T) {
	h := &host{}
	c := newClock(h)
	h.queued(1, kernel.Sleeping, 1, 0)
	h.pass(t, c, 10)
	counted := time.Duration(0)
	for n := range uint64(3) {
		for range 4 {
			h.queued(1, kernel.Runnable, n+1, counted)
			h.pass(t, c, 10)
		}
		counted += 40
		h.queued(1, kernel.Running, n+1, counted)
		h.pass(t, c, 10)
		h.queued(1, kernel.Sleeping, n+2, counted)
		h.pass(t, c, 10)
	}
	h.threads = nil
	h.now += uint64(askAgain)
	h.pass(t, c, 10)
	if d := h.sumOf(1, kernel.Runnable); d != counted || c.Stats().Time["runnable"] != uint64(counted) {
		t.Errorf("queued for %v, and %v; the kernel has counted %v", d, c.Stats().Time, counted)
	}
}

// TestUnseenQueue: the time of a thread that was queued between looks, and that no look has found in the queue, is
// credited when the thread has ended, when another thread has its ID, and after the last pass of Run.
func TestUnseenQueue(t *testing.T) {
	for name, finish := range map[string]func(h *host, c *Clock){
		"ends": func(h *host, c *Clock) {
			h.threads = nil
			h.now += uint64(askAgain)
			h.pass(t, c, 10)
		},
		"another thread": func(h *host, c *Clock) {
			h.threads[0].Started, h.threads[0].Queued = h.now, 0
			h.pass(t, c, 10)
		},
		"last pass": func(_ *host, c *Clock) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			c.Run(ctx, func() float64 { return 1 })
		},
	} {
		h := &host{}
		c := newClock(h)
		h.queued(1, kernel.Running, 1, 100)
		h.pass(t, c, 10)
		h.queued(1, kernel.Running, 2, 107)
		h.pass(t, c, 10)
		if c.Flush(); len(h.got) != 0 {
			t.Errorf("%s: credits %v while the thread lives", name, h.got)
		}
		finish(h, c)
		if want := (credit{1, 0, kernel.Runnable, unwind.Moved, 7, ""}); len(h.got) != 1 || h.got[0] != want {
			t.Errorf("%s: credits %v, want %v", name, h.got, want)
		}
		if s := c.Stats(); s.Time["runnable"] != 7 {
			t.Errorf("%s: times %v", name, s.Time)
		}
	}
}

// life is a thread that is queued for a CPU, runs, sleeps, is queued again, and runs until it ends: when it starts each
// of these.
type life struct{ began, firstRun, fellAsleep, woke, lastRun, ended uint64 }

// newLife returns a thread that starts at a time, with the given part of its time in the queue.
func newLife(at uint64, lives, queued time.Duration) life {
	const runs = 5 // of its time, one part is for running
	ran, waited := uint64(lives/runs/2), uint64(queued/2)
	l := life{began: at, firstRun: at + waited, ended: at + uint64(lives)}
	l.fellAsleep, l.lastRun = l.firstRun+ran, l.ended-ran
	l.woke = l.lastRun - waited
	return l
}

// at returns the thread as it is at a time.
func (l *life) at(now uint64, tid uint32) kernel.Thread {
	t := kernel.Thread{PID: tid, TID: tid, Started: l.began, Time: now}
	switch {
	case now < l.firstRun:
		t.State = kernel.Runnable
	case now < l.fellAsleep:
		t.State, t.Queued = kernel.Running, time.Duration(l.firstRun-l.began)
	case now < l.woke:
		t.State, t.Queued, t.Switches = kernel.Sleeping, time.Duration(l.firstRun-l.began), 1
	case now < l.lastRun:
		t.State, t.Queued, t.Switches = kernel.Runnable, time.Duration(l.firstRun-l.began), 1
	default:
		t.State, t.Switches = kernel.Running, 1
		t.Queued = time.Duration(l.firstRun - l.began + l.lastRun - l.woke)
	}
	return t
}

// TestChildren: a program starts one child after another. However short they live, the time that they have slept and
// the time that they were queued is right on average, and so is the sum over all states.
func TestChildren(t *testing.T) {
	const period, queuedShare = 50 * time.Millisecond, 0.4
	for _, lives := range []time.Duration{
		5 * time.Millisecond, 40 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 20 * time.Second,
	} {
		h, random := &host{}, rand.New(rand.NewPCG(7, uint64(lives)))
		c := newClock(h)
		c.options.Target = func(uint32) (*target.Target, bool) { return nil, true }
		begin, tid := h.now, uint32(1)
		child := newLife(h.now, lives, time.Duration(queuedShare*float64(lives)))
		for range 5000 {
			after := time.Duration(float64(period) * (0.5 + random.Float64()))
			for h.now+uint64(after) >= child.ended {
				child = newLife(child.ended, lives, time.Duration(queuedShare*float64(lives)))
				tid++
			}
			h.threads = append(h.threads[:0], child.at(h.now+uint64(after), tid))
			h.pass(t, c, after)
		}
		c.finishAll()
		all := time.Duration(h.now - begin)
		got := map[kernel.ThreadState]float64{}
		for _, credit := range h.got {
			got[credit.state] += credit.d.Seconds()
		}
		for state, share := range map[kernel.ThreadState]float64{
			kernel.Runnable: queuedShare, kernel.Sleeping: 1 - queuedShare - 0.2, kernel.Running: 0.2,
		} {
			want := share * all.Seconds()
			counted := time.Duration(c.Stats().Time[state.String()]).Seconds()
			if d := math.Abs(counted - want); d > 0.03*all.Seconds() {
				t.Errorf("children of %v: %s for %.1f s by the counter, want %.1f", lives, state, counted, want)
			}
			if d := math.Abs(got[state] - want); state != kernel.Running && d > 0.03*all.Seconds() {
				t.Errorf("children of %v: %s for %.1f s, want %.1f", lives, state, got[state], want)
			}
		}
	}
}

func (h *host) sumOf(tid uint32, state kernel.ThreadState) (d time.Duration) {
	for _, c := range h.got {
		if c.tid == tid && c.state == state {
			d += c.d
		}
	}
	return d
}
