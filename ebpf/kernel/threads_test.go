package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

func openThreads(t testing.TB) *Threads {
	t.Helper()
	need.Root(t)
	threads, err := OpenThreads()
	return need.Opened[*PermissionError](t, threads, err)
}

// readThreads returns the threads of a process by their IDs.
func readThreads(t testing.TB, threads *Threads, pid, tid uint32) map[uint32]Thread {
	t.Helper()
	found := map[uint32]Thread{}
	err := threads.Read(pid, tid, func(thread *Thread) {
		copied := *thread
		copied.Kernel = append([]uint64(nil), thread.Kernel...)
		found[thread.TID] = copied
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A sleeping thread is found with the registers of its system call, its kernel stack and the time that it has slept,
// and these do not change until it runs again.
func TestThreadsOfASleeper(t *testing.T) {
	threads := openThreads(t)
	tids := make(chan uint32, 1)
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		_ = unix.Nanosleep(&unix.Timespec{Sec: 600}, nil)
	}()
	tid := <-tids
	awaitCall(t, threads, tid, unix.SYS_NANOSLEEP)
	first := readThreads(t, threads, uint32(os.Getpid()), 0)[tid]
	if first.State != Sleeping || first.Call != unix.SYS_NANOSLEEP || first.Outcome != unwind.Unset {
		t.Fatalf("the thread is %s in system call %d with registers %s", first.State, first.Call, first.Outcome)
	}
	if first.Regs.PC == 0 || first.Regs.SP == 0 || first.Regs.SP > first.StartStack || !first.Regs.Exact {
		t.Errorf("registers %+v, and the stack begins at 0x%x", first.Regs, first.StartStack)
	}
	if len(first.Kernel) == 0 {
		t.Error("no kernel stack")
	}
	time.Sleep(300 * time.Millisecond)
	second := readThreads(t, threads, 0, tid)[tid]
	if second.Switches != first.Switches || second.Regs != first.Regs || second.Started != first.Started {
		t.Errorf("it slept, but\n%+v\nhas become\n%+v", first, second)
	}
	passed := time.Duration(second.Time - first.Time)
	if grown := second.Off - first.Off; second.Off < 0 || grown < passed/2 || grown > 2*passed {
		t.Errorf("it was off its CPU for %v, and %v later for %v", first.Off, passed, second.Off)
	}
}

// Running threads are reported as running, threads of the kernel have no user part, and all threads of the host are
// found.
func TestThreadsOfAllKinds(t *testing.T) {
	threads := openThreads(t)
	stop := make(chan struct{})
	defer close(stop)
	tids := make(chan uint32, 1)
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		burn(stop)
	}()
	busy, self := <-tids, uint32(os.Getpid())
	if runtime.NumCPU() > 1 { // else the reader has the CPU
		testkit.Eventually(t, "the busy thread is on a CPU", func() bool {
			return readThreads(t, threads, self, 0)[busy].State == Running
		})
	}
	const kthreadd = 2
	all := readThreads(t, threads, 0, 0)
	if kernel := all[kthreadd]; kernel.Outcome != unwind.KernelThread || kernel.Comm != "kthreadd" {
		t.Errorf("thread 2 is %+v", kernel)
	}
	if all[self].PID != self || len(readThreads(t, threads, self, 0)) < 2 {
		t.Errorf("of this process there are %v", readThreads(t, threads, self, 0))
	}
	if none := readThreads(t, threads, 1<<30, 0); len(none) > 0 {
		t.Errorf("a process that cannot be has %v", none)
	}
}

// A thread that waits in vfork is not frozen, though the kernel has noted it as one that may be, and it waits for its
// child.
func TestThreadsInVfork(t *testing.T) {
	threads := openThreads(t)
	// The thread below waits without the knowledge of Go's scheduler, so a garbage collection would wait for its child.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // ends a collection that has started
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	tids, children := make(chan uint32, 1), make(chan uintptr, 1)
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		polled, longest := unix.PollFd{Fd: int32(ends[0]), Events: unix.POLLIN}, unix.Timespec{Sec: 60}
		child, _, _ := unix.RawSyscall(unix.SYS_CLONE, unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0)
		if child == 0 { // it has a copy of this process's memory
			_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 1,
				uintptr(unsafe.Pointer(&longest)), 0, 0, 0)
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		children <- child
	}()
	tid := <-tids
	var found Thread
	testkit.Eventually(t, "the thread waits in vfork", func() bool {
		found = readThreads(t, threads, 0, tid)[tid]
		return found.Call == unix.SYS_CLONE && found.State != Running && found.State != Runnable
	})
	if found.State != Uninterruptible {
		t.Errorf("the thread is %s", found.State)
	}
	if _, err := unix.Write(ends[1], []byte{0}); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(int(<-children), nil, 0, nil); err != nil {
		t.Error(err)
	}
	for _, end := range ends {
		_ = unix.Close(end)
	}
}

func TestThreadState(t *testing.T) {
	for _, test := range []struct {
		state, exit uint32
		onCPU       bool
		want        ThreadState
	}{
		{0, 0, true, Running}, {0, 0, false, Runnable}, {0x200, 0, false, Runnable},
		{1, 0, true, Running}, {1, 0, false, Sleeping}, {0x2001, 0, false, Sleeping},
		{2, 0, false, Uninterruptible}, {0x102, 0, false, Uninterruptible}, {0x402, 0, false, Idle},
		{0x104, 0, false, Stopped}, {0x108, 0, false, Traced},
		{0x8000, 0, false, Frozen}, {0x8001, 0, false, Frozen}, {0x8104, 0, false, Stopped}, {0x8108, 0, false, Traced},
		{0x1000, 0, false, Uninterruptible}, {0, 0x20, false, Ended}, {0x80, 0, true, Ended},
	} {
		if got := threadState(test.state, test.exit, test.onCPU); got != test.want {
			t.Errorf("state 0x%x, exit state 0x%x, on a CPU: %v: %s, want %s", test.state, test.exit, test.onCPU, got, test.want)
		}
	}
}

// Records come in pieces of any size, and a broken one is refused.
func TestDecodeThreads(t *testing.T) {
	var threads Threads
	record := func(tid uint32, frames int) []byte {
		r := threadsThread{Tid: tid, KernelFrames: uint16(frames)}
		b := unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))
		return bytes.Clone(b[:int(unsafe.Offsetof(r.Kernel))+8*frames])
	}
	all := append(record(1, 3), record(2, 0)...)
	for cut := range len(all) {
		var tids []uint32
		use := func(thread *Thread) { tids = append(tids, thread.TID) }
		rest, err := threads.decodeAll(all[:cut], use)
		if err == nil {
			rest, err = threads.decodeAll(append(bytes.Clone(rest), all[cut:]...), use)
		}
		if err != nil || len(rest) > 0 || len(tids) != 2 {
			t.Fatalf("cut at %d: threads %v, %d bytes left, %v", cut, tids, len(rest), err)
		}
	}
	broken := record(3, 0)
	broken[unsafe.Offsetof(threadsThread{}.KernelFrames)] = 255
	if _, err := threads.decodeAll(broken, func(*Thread) {}); err == nil {
		t.Error("a record of 255 kernel frames was taken")
	}
}

// Threads are handed over with registers in the check where they are next, and without in the check after it: by a
// pass, and one by one, which needs Linux 6.1.
func TestCheck(t *testing.T) {
	threads := openThreads(t)
	reader, writer := pipe(t)
	defer unix.Close(writer)
	tids := make(chan uint32, 1)
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		_, _ = unix.Read(reader, make([]byte, 1))
	}()
	waiting := awaitCall(t, threads, <-tids, unix.SYS_READ)
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	if since := major > 6 || major == 6 && minor >= 1; threads.single != since {
		t.Fatalf("Linux %d.%d reads threads one by one: %v", major, minor, threads.single)
	}
	const all, few = 0, 1 << 20 // threads of the host, so that they are read by a pass, and one by one
	for _, listed := range []int{all, few} {
		threads.listed = listed
		for i, next := range [][]*Thread{{&waiting}, nil, nil} {
			var found []Thread
			if err := threads.Check(next, func(of *Thread) { found = append(found, *of) }); err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				if len(found) > 0 {
					t.Errorf("listed %d: found in the third check: %+v", listed, found)
				}
				continue
			}
			want := 0 // no registers
			if i == 0 {
				want = int(waiting.Regs.PC)
			}
			if len(found) != 1 || found[0].TID != waiting.TID || found[0].Switches != waiting.Switches ||
				found[0].Started != waiting.Started || int(found[0].Regs.PC) != want {
				t.Errorf("listed %d, check %d: found %+v, want %+v", listed, i, found, waiting)
			}
		}
		if err := threads.Unmark(waiting.TID); err != nil {
			t.Fatal(err)
		}
	}
}

// A thread that is where its mark has it is handed over once more. Then the kernel's part counts and credits it until
// it moves. Threads of unwanted processes are left out.
func TestReadMarked(t *testing.T) {
	threads := openThreads(t)
	reader, writer := pipe(t)
	tids := make(chan uint32, 1)
	go func() {
		runtime.LockOSThread()
		tids <- uint32(unix.Gettid())
		for n := 1; n > 0; {
			n, _ = unix.Read(reader, make([]byte, 1))
		}
	}()
	tid := <-tids
	waiting := awaitCall(t, threads, tid, unix.SYS_READ)
	if err := threads.Check([]*Thread{&waiting}, func(*Thread) {}); err != nil {
		t.Fatal(err)
	}
	const interval = 1000
	look := func(wantHanded, wantUnmoved bool, want Mark) {
		t.Helper()
		var found *Thread
		stayed, err := threads.ReadMarked(interval, func(thread *Thread) {
			if thread.TID == tid {
				found = thread
			}
		})
		if err != nil || (found != nil) != wantHanded || found != nil && found.Unmoved != wantUnmoved {
			t.Fatalf("%v, and the thread is %+v", err, found)
		}
		if seen := stayed == 1; seen != want.Seen {
			t.Errorf("%d threads have stayed", stayed)
		}
		if found != nil && found.Stayed != want.Stayed {
			t.Errorf("it comes with %d ns, want %d", found.Stayed, want.Stayed)
		}
		var marks []Mark
		if err := threads.ReadMarks(func(m Mark) { marks = append(marks, m) }); err != nil {
			t.Fatal(err)
		}
		if len(marks) != 1 || marks[0] != want {
			t.Errorf("marks %+v, want %+v", marks, want)
		}
	}
	look(true, true, Mark{TID: tid})
	look(false, false, Mark{TID: tid, Stayed: interval, Seen: true})
	look(false, false, Mark{TID: tid, Stayed: 2 * interval, Seen: true})
	if _, err := unix.Write(writer, []byte{1}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the thread reads again", func() bool {
		return awaitCall(t, threads, tid, unix.SYS_READ).Switches != waiting.Switches
	})
	look(true, false, Mark{TID: tid, Stayed: 2 * interval})
	if err := errors.Join(threads.Unmark(tid), threads.MarkUnwanted(uint32(os.Getpid()))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		found := false
		if _, err := threads.ReadMarked(0, func(thread *Thread) { found = found || thread.TID == tid }); err != nil {
			t.Fatal(err)
		}
		if found != want {
			t.Errorf("a thread of an unwanted process is there: %v, want %v", found, want)
		}
		if err := threads.WantAll(); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Close(writer); err != nil {
		t.Fatal(err)
	}
}
