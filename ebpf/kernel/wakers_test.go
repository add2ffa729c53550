package kernel

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit"
)

// TestWaker: a thread that writes to a pipe is the waker of the thread that reads it, once for a marked wait, and not
// for the next wait, which is not marked.
func TestWaker(t *testing.T) {
	threads := openThreads(t)
	if err := threads.WatchWakers(); err != nil {
		t.Fatal(err)
	}
	if err := threads.WatchWakers(); err != nil { // a repeated call has no effect
		t.Fatal(err)
	}
	reader, writer := pipe(t)
	tids := make(chan uint32, 2)
	read := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		for n := 1; n > 0; {
			n, _ = unix.Read(reader, make([]byte, 1))
			read <- struct{}{}
		}
	}()
	tid := <-tids
	waiting := awaitCall(t, threads, tid, unix.SYS_READ)
	for _, next := range [][]*Thread{{&waiting}, nil} { // with registers, and without
		var now Thread
		err := threads.Check(next, func(thread *Thread) { now = *thread })
		if err != nil || now.TID != tid || now.Switches != waiting.Switches || now.State != Sleeping {
			t.Fatalf("the reader has not stayed in its wait: %+v, %v", now, err)
		}
		if whole := now.Regs == waiting.Regs && now.Call == unix.SYS_READ; whole != (next != nil) {
			t.Errorf("it has registers %+v in call %d, want %+v in a check with it next", now.Regs, now.Call, waiting.Regs)
		}
	}
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		_, _ = unix.Write(writer, []byte{1}) // it is read, or the test fails
	}()
	by := <-tids
	<-read
	awaitCall(t, threads, tid, unix.SYS_READ)
	if _, err := unix.Write(writer, []byte{2}); err != nil {
		t.Fatal(err)
	}
	<-read
	got := readWakers(t, threads, tid)
	if len(got) != 1 {
		t.Fatalf("wakers %+v, want one", got)
	}
	w := got[0]
	self := uint32(os.Getpid())
	if w.ByTID != by || w.ByPID != self || w.ByKernel || w.ByComm == "" || w.ByProcess == "" || len(w.Kernel) < 3 {
		t.Errorf("waker %+v, want thread %d of %d", w, by, self)
	}
	if w.Started != waiting.Started || w.Switches != waiting.Switches {
		t.Errorf("it has ended the wait %d of %d, want %d of %d", w.Switches, w.Started, waiting.Switches, waiting.Started)
	}
	if err := threads.IgnoreWakers(); err != nil {
		t.Fatal(err)
	}
	if got := readWakers(t, threads, tid); len(got) > 0 {
		t.Errorf("nobody watches, and there are %+v", got)
	}
	if err := unix.Close(writer); err != nil {
		t.Fatal(err)
	}
	<-read
}

func pipe(t testing.TB) (reader, writer int) {
	t.Helper()
	ends := make([]int, 2)
	if err := unix.Pipe2(ends, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(ends[0]) })
	return ends[0], ends[1]
}

// awaitCall returns a thread that waits in a system call.
func awaitCall(t testing.TB, threads *Threads, tid uint32, call int64) (found Thread) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("thread %d waits in system call %d", tid, call), func() bool {
		found = readThreads(t, threads, 0, tid)[tid]
		return found.State == Sleeping && found.Call == call
	})
	return found
}

// readWakers returns the wakers that ended waits of a thread.
func readWakers(t testing.TB, threads *Threads, tid uint32) (out []Waker) {
	t.Helper()
	lost, err := threads.ReadWakers(func(w *Waker) {
		if w.TID == tid {
			copied := *w
			copied.Kernel = slices.Clone(w.Kernel)
			out = append(out, copied)
		}
	})
	if err != nil || lost > 0 {
		t.Fatalf("%d wakers are lost, %v", lost, err)
	}
	return out
}

// Records of a wrong length are refused.
func TestDecodeWaker(t *testing.T) {
	const frames = 3
	r := wakersWaker{Tid: 7, KernelFrames: frames}
	for i := range frames {
		r.Kernel[i] = uint64(i + 1)
	}
	whole := bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Offsetof(r.Kernel)+8*frames))
	var w wakers
	for cut := range len(whole) {
		if got, err := w.decode(whole[:cut]); err == nil {
			t.Fatalf("a record of %d bytes was taken: %+v", cut, got)
		}
	}
	got, err := w.decode(append(whole, 0, 0, 0, 0))
	if err != nil || got.TID != 7 || !slices.Equal(got.Kernel, []uint64{1, 2, 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	r.KernelFrames = 1 << 15
	if _, err := w.decode(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))); err == nil {
		t.Error("a record of 32,768 kernel frames was taken")
	}
}
