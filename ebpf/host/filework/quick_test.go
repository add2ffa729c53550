package filework

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
)

// quickOf returns work of a mount and a user.
func quickOf(mount string, owner uint32, run func()) QuickWork {
	return QuickWork{What: "reading " + mount, Mount: mount, Owner: func() uint32 { return owner }, Run: run}
}

// TestQuick: Quick waits once for work that hangs. While it hangs, no work runs for the same mount, but work for other
// mounts of the user does. After the work has ended, the mount rests for a moment.
func TestQuick(t *testing.T) {
	var p Pool
	ran := 0
	run := func() { ran++ }
	if err := p.Quick(quickOf("dead", 1000, run)); err != nil || ran != 1 {
		t.Fatalf("%v, ran %d times", err, ran)
	}
	work, release := hang(t)
	if err := p.Quick(quickOf("dead", 1000, work)); !isSlow(err, false) || !Hangs(err) {
		t.Fatalf("%v", err)
	}
	if late, hanging, _ := p.Counts(); late != 1 || hanging != 1 || p.Late()["reading dead"] < QuickPatience {
		t.Errorf("%d late, %d hanging, %v", late, hanging, p.Late())
	}
	p.forget(time.Now().Add(time.Hour)) // the user has all patience again, and still it hangs
	refused := func() { t.Error("begun") }
	if err := p.Quick(quickOf("dead", 1000, refused)); !isSlow(err, true) {
		t.Errorf("of the same mount: %v", err)
	}
	for owner := range uint32(2) {
		if err := p.Quick(quickOf("other", 1000+owner, run)); err != nil || ran != 2+int(owner) {
			t.Errorf("of another mount: %v, ran %d times", err, ran)
		}
	}
	release()
	testkit.Eventually(t, "it ends", func() bool { late, _, _ := p.Counts(); return late == 0 })
	rest := p.rests["dead"]
	if rest == nil || rest.length < QuickPatience {
		t.Fatalf("it rests like that: %+v", rest)
	}
	rest.until = time.Now().Add(time.Hour) // it may be over by now
	if err := p.Quick(quickOf("dead", 1000, refused)); !isSlow(err, true) {
		t.Errorf("soon afterwards: %v", err)
	}
	rest.until = time.Now()
	if err := p.Quick(quickOf("dead", 1000, run)); err != nil || ran != 4 {
		t.Errorf("later: %v, ran %d times", err, ran)
	}
}

// TestQuickPatience: a Pool with a Patience waits for blocked work that ends later than QuickPatience.
func TestQuickPatience(t *testing.T) {
	p := Pool{Patience: time.Minute}
	work, release := hang(t)
	result := make(chan error)
	go func() { result <- p.Quick(quickOf("slow", 1000, work)) }()
	time.Sleep(2 * QuickPatience)
	release()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// TestQuickOnBusyCPU: Quick waits longer, but not forever, for work that is not blocked and does not end. That also
// holds if Go runs one goroutine at a time, so that the thread of the work rests while its state is read.
func TestQuickOnBusyCPU(t *testing.T) {
	for _, procs := range []int{1, 2} {
		t.Run(fmt.Sprint(procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			testQuickOnBusyCPU(t)
		})
	}
}

func testQuickOnBusyCPU(t *testing.T) {
	var p Pool
	burn := func(end func() bool) func() {
		return func() {
			for !end() {
			}
		}
	}
	var over atomic.Bool
	defer over.Store(true)
	ended := make(chan struct{})
	p.turned = func(turn int) {
		if turn == 2 {
			over.Store(true)
			<-ended
		}
	}
	err := p.Quick(quickOf("busy", 1000, func() { defer close(ended); burn(over.Load)() }))
	if err != nil || !over.Load() {
		t.Fatalf("%v, waited for two turns: %v", err, over.Load())
	}
	over.Store(false)
	p.turned = nil
	began := time.Now()
	if err := p.Quick(quickOf("busy", 1000, burn(over.Load))); !isSlow(err, false) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < QuickTurns*QuickPatience {
		t.Errorf("waited for %v, want %v", took, QuickTurns*QuickPatience)
	}
	over.Store(true)
	testkit.Eventually(t, "it ends", func() bool { late, _, _ := p.Counts(); return late == 0 })
}

// TestQuickAgain: a mount that is late rests for as long as Quick waited for it, and longer when it is late again, so
// that waits for it take at most a tenth of the time.
func TestQuickAgain(t *testing.T) {
	var p Pool
	now := time.Now()
	for late, want := range []time.Duration{1, 2, 4, 8, LateShare, LateShare} {
		task := &Task{origin: Origin{Mount: "m"}, began: now.Add(-time.Hour), waited: QuickPatience}
		p.recovered(task, now)
		if got := p.rests["m"].until.Sub(now); got != want*QuickPatience {
			t.Errorf("late %d times, the mount rests for %v, want %v", late+1, got, want*QuickPatience)
		}
	}
	if p.forget(now.Add(2 * lateMemory)); len(p.rests) > 0 {
		t.Errorf("%d mounts are never forgotten", len(p.rests))
	}
}

// TestQuickOfUser: if every process of a user is late, waits for the user's late work take at most a tenth of the time.
func TestQuickOfUser(t *testing.T) {
	var p Pool
	const length = time.Minute
	begin := time.Now()
	var waited time.Duration
	most := 0
	for now := begin; now.Before(begin.Add(length)); {
		patience := p.timeLeft(1000, now)
		if patience == 0 {
			now = now.Add(time.Millisecond)
			continue
		}
		waited += patience
		task := &Task{origin: Origin{fmt.Sprint(most), 1000}, began: now}
		now = now.Add(patience)
		p.markHanging(task, now)
		p.recovered(task, now)
		most++
	}
	if limit := LateAtOnce + length/LateShare; waited > limit || waited < limit/2 {
		t.Errorf("in %v, %v were spent on waiting for %d pieces of work; want up to %v", length, waited, most, limit)
	}
	if got := p.timeLeft(1001, begin.Add(length)); got != QuickPatience {
		t.Errorf("another user's work is waited for %v", got)
	}
}

// BenchmarkQuick measures Quick for work that does not hang.
func BenchmarkQuick(b *testing.B) {
	var p Pool
	for b.Loop() {
		if err := p.Quick(quickOf("m", 0, func() {})); err != nil {
			b.Fatal(err)
		}
	}
}
