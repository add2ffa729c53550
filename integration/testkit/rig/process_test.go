package rig

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
)

// TestStartOutlivesThread: a program still runs when the threads that asked for it have ended.
func TestStartOutlivesThread(t *testing.T) {
	for range 4 { // the main thread does not end, and may be among the four
		asked := make(chan int)
		var p *Process
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			p = Start(t, exec.Command("sleep", "60"))
			asked <- unix.Gettid()
		}()
		thread := <-asked
		if thread != unix.Getpid() {
			testkit.Eventually(t, "the thread has ended", func() bool {
				return unix.Tgkill(unix.Getpid(), thread, 0) == unix.ESRCH
			})
		}
		select {
		case <-p.Done:
			t.Errorf("the program has ended, too: %v", p.Err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
