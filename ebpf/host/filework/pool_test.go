package filework

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/integration/testkit"
)

// hang blocks in a system call until release is called, as opening a file of a dead
// mount does.
func hang(t *testing.T) (work func(), release func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	work = func() {
		if f, err := unix.Open(path, unix.O_RDONLY, 0); err == nil { // waits for a writer
			unix.Close(f)
		}
	}
	return work, func() {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = f.Close() }) // work that starts later does not block either
	}
}

func isSlow(err error, refused bool) bool {
	var slow *SlowError
	return errors.As(err, &slow) && (slow.Refused != "") == refused
}

// TestHangingMount: no further work is sent to a mount that hangs, other mounts are read, and all work continues when
// the mount answers.
func TestHangingMount(t *testing.T) {
	var p Pool
	dead := Origin{Mount: "dead", Owner: 1000}
	work, release := hang(t)
	if err := p.Do(dead, "opening x", 20*time.Millisecond, work); !isSlow(err, false) {
		t.Fatalf("%v", err)
	}
	testkit.Eventually(t, "it hangs", func() bool { _, hanging, _ := p.Counts(); return hanging == 1 })
	if err := p.Do(dead, "opening y", time.Minute, func() { t.Error("begun") }); !isSlow(err, true) {
		t.Errorf("of the same mount: %v", err)
	}
	ran := false
	if err := p.Do(Origin{Mount: "live", Owner: 1000}, "opening z", time.Minute, func() { ran = true }); err != nil ||
		!ran {
		t.Errorf("of another mount: %v, ran: %v", err, ran)
	}
	if late := p.Late(); late["opening x"] == 0 || len(late) != 1 {
		t.Errorf("late: %v", late)
	}
	release()
	testkit.Eventually(t, "it ends", func() bool { late, _, _ := p.Counts(); return late == 0 })
	if err := p.Do(dead, "opening y", time.Minute, func() {}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestGet: a late result is dropped.
func TestGet(t *testing.T) {
	var p Pool
	if n, err := Get(&p, Origin{}, "", time.Minute, func() (int, error) { return 1, nil }, nil); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	work, release := hang(t)
	dropped := make(chan int)
	n, err := Get(&p, Origin{}, "", time.Millisecond, func() (int, error) { work(); return 2, nil },
		func(n int) { dropped <- n })
	if n != 0 || !isSlow(err, false) {
		t.Errorf("%d, %v", n, err)
	}
	release()
	if n := <-dropped; n != 2 {
		t.Errorf("%d dropped", n)
	}
}

// TestManyMounts: a user with many dead mounts uses up neither root's share nor another user's.
func TestManyMounts(t *testing.T) {
	var p Pool
	var releases []func()
	for i := range hangsPerUser {
		work, release := hang(t)
		releases = append(releases, release)
		if _, err := p.Start(Origin{Mount: string(rune('a' + i)), Owner: 1000}, "opening", work); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	p.mu.Lock()
	var tasks []*Task
	for task := range p.tasks {
		tasks = append(tasks, task)
	}
	p.mu.Unlock()
	for _, task := range tasks {
		if err := p.Wait(task, time.Millisecond); !isSlow(err, false) {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all hang", func() bool { _, hanging, _ := p.Counts(); return hanging == hangsPerUser })
	if err := p.Do(Origin{Mount: "next", Owner: 1000}, "opening", time.Minute, func() {}); !isSlow(err, true) {
		t.Errorf("one more: %v", err)
	}
	for _, owner := range []uint32{0, 1001} {
		if err := p.Do(Origin{Mount: "next", Owner: owner}, "opening", time.Minute, func() {}); err != nil {
			t.Errorf("of user %d: %v", owner, err)
		}
	}
	for _, release := range releases {
		release()
	}
	testkit.Eventually(t, "all end", func() bool { late, _, _ := p.Counts(); return late == 0 })
}

// TestBusyWork: work that computes for long does not hang, so its mount is still read. But only little such work may
// run for one mount, and for one user.
func TestBusyWork(t *testing.T) {
	var p Pool
	var stop atomic.Bool
	burn := func() {
		for !stop.Load() {
		}
	}
	same := Origin{Mount: "disk", Owner: 1000}
	if err := p.Do(same, "decompressing", time.Millisecond, burn); !isSlow(err, false) {
		t.Fatal(err)
	}
	time.Sleep(3 * firstLook)
	if _, hanging, _ := p.Counts(); hanging != 0 {
		t.Errorf("%d hang", hanging)
	}
	for i := 1; i < latePerMount; i++ {
		if err := p.Do(same, "decompressing", time.Millisecond, burn); !isSlow(err, false) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := p.Do(same, "opening", time.Minute, func() {}); !isSlow(err, true) {
		t.Errorf("one more: %v", err)
	}
	other := func(n int) Origin { return Origin{Mount: fmt.Sprint("disk ", n), Owner: same.Owner} }
	for i := latePerMount; i < latePerUser; i++ {
		if err := p.Do(other(i), "decompressing", time.Millisecond, burn); !isSlow(err, false) {
			t.Fatalf("another mount, %d: %v", i, err)
		}
	}
	if err := p.Do(other(0), "opening", time.Minute, func() {}); !isSlow(err, true) {
		t.Errorf("one more of that user: %v", err)
	}
	if err := p.Do(Origin{Mount: "disk", Owner: 1001}, "opening", time.Minute, func() {}); err != nil {
		t.Errorf("another user: %v", err)
	}
	stop.Store(true)
	testkit.Eventually(t, "all end", func() bool { late, _, _ := p.Counts(); return late == 0 })
}

// TestCPUShare: work of a user that has taken much CPU time is refused until the user's share allows it. Work of other
// users, and of root, is not refused.
func TestCPUShare(t *testing.T) {
	var p Pool
	const greedy, other = 1000, 1001
	now := time.Now()
	overspent := func(owner uint32, now time.Time) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.overspent(owner, now)
	}
	spend := func(owner uint32, spent time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.spend(owner, spent, now)
	}
	spend(greedy, CPUAtOnce-time.Second)
	if overspent(greedy, now) {
		t.Error("refused before the time was used up")
	}
	spend(greedy, 3*CPUAtOnce)
	spend(0, 100*CPUAtOnce)
	for _, after := range []time.Duration{0, CPUShare * 2 * CPUAtOnce} {
		if !overspent(greedy, now.Add(after)) {
			t.Errorf("%v later more work of the user may run", after)
		}
	}
	if overspent(greedy, now.Add(CPUShare*3*CPUAtOnce)) {
		t.Error("no more work of the user may run when its share has come up")
	}
	if overspent(other, now) || overspent(0, now) {
		t.Error("work of others is refused")
	}
}

// TestCPUIsCounted: the CPU time of work is the CPU time of its thread.
func TestCPUIsCounted(t *testing.T) {
	var p Pool
	const owner = 1000
	var spent time.Duration
	err := p.Do(Origin{Mount: "x", Owner: owner}, "spinning", time.Minute, func() {
		for before := clock.ThreadCPU(); spent < 50*time.Millisecond; spent = clock.ThreadCPU() - before {
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.cpu[owner]; left == nil || left.TokensAt(time.Now()) > float64((CPUAtOnce-spent/2).Milliseconds()) {
		t.Errorf("%v were spent and not counted", spent)
	}
}
