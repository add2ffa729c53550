package filework

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/footprint"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestPriorityOfWork: work that a goroutine with a high priority waits for also has a high priority, on a thread that
// is used again. Other work has no high priority.
func TestPriorityOfWork(t *testing.T) {
	need.Root(t)
	var p Pool
	threadOf := func() (thread, nice int) {
		look := func() {
			raised, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
			thread, nice = unix.Gettid(), 20-raised
		}
		if err := p.Quick(QuickWork{What: "looking", Mount: "x", Owner: func() uint32 { return 0 }, Run: look}); err != nil {
			t.Error(err)
		}
		return thread, nice
	}
	_, usual := threadOf()
	done := make(chan struct{})
	before := runtime.NumGoroutine()
	go func() { // the thread ends with this goroutine
		defer close(done)
		footprint.RaisePriority()
		first, nice := threadOf()
		if nice >= usual {
			t.Errorf("nice %d, of other work %d", nice, usual)
		}
		testkit.Eventually(t, "the thread rests", func() bool {
			p.workers.mu.Lock()
			defer p.workers.mu.Unlock()
			return len(p.workers.idle) == 1
		})
		if again, _ := threadOf(); again != first {
			t.Errorf("thread %d, and then %d", first, again)
		}
		if err := p.Do(Origin{Mount: "x"}, "looking", time.Minute, func() {
			if raised, _ := unix.Getpriority(unix.PRIO_PROCESS, 0); 20-raised != nice {
				t.Errorf("nice %d with a thread of its own, else %d", 20-raised, nice)
			}
		}); err != nil {
			t.Error(err)
		}
	}()
	<-done
	if _, nice := threadOf(); nice != usual {
		t.Errorf("nice %d afterwards, %d before", nice, usual)
	}
	testkit.Eventually(t, "there are as many goroutines as before", func() bool {
		return runtime.NumGoroutine() <= before
	})
}
