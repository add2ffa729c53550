package kernel

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
)

// The stack of a thread that is only briefly on its CPU is copied as it is when the thread leaves: it is not read with
// another thread's memory. The stack of a thread that is no longer watched is not copied.
func TestCopiedStack(t *testing.T) {
	threads := openThreads(t)
	if err := threads.CopyStacks(2); err != nil {
		t.Fatal(err)
	}
	tids, stop := make(chan uint32, 1), make(chan struct{})
	defer close(stop)
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		for pause := unix.NsecToTimespec(int64(100 * time.Microsecond)); ; _ = unix.Nanosleep(&pause, nil) {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	tid := <-tids
	look := func(watched ...uint32) (met Thread, copied *StackCopy) {
		t.Helper()
		if err := threads.WatchLeaving(watched); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		_, err := threads.ReadMarked(0, func(thread *Thread) {
			if thread.TID == tid {
				met = *thread
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if copied, err = threads.CopiedStack(&met); err != nil {
			t.Fatal(err)
		}
		return met, copied
	}
	var stacks [][]byte
	testkit.Eventually(t, "the thread is met where its stack was copied", func() bool {
		met, copied := look(tid, 1<<30, 1<<30+1)
		if met.Copied != (copied != nil) {
			t.Fatalf("copied: %v, and there is %v", met.Copied, copied)
		}
		if copied == nil {
			return false
		}
		page := met.Regs.SP &^ (stackPage - 1)
		stack := copied.Page(page)
		if stack == nil || copied.Page(page-2*stackPage) != nil || copied.Page(page+1) != nil {
			t.Fatalf("the stack pointer is 0x%x, the copy from 0x%x on has pages %b", met.Regs.SP, copied.base, copied.pages)
		}
		// The address where it continues after the system call is a return address in its caller's frame.
		if at := met.Regs.SP - page; at+8 <= stackPage && binary.LittleEndian.Uint64(stack[at:]) == 0 {
			t.Errorf("no word at the stack pointer")
		}
		stacks = append(stacks, bytes.Clone(stack))
		return len(stacks) == 3
	})
	for range 3 {
		if met, copied := look(1 << 30); met.Copied || copied != nil {
			t.Fatalf("the stack of a thread that is not watched was copied: %+v", met)
		}
	}
}
