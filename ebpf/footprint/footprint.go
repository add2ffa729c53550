// Package footprint keeps small what a profiler costs the machine that it watches:
// the CPU time that it takes from other programs, and the memory that it holds. None
// of it is needed to profile, so every error here may be logged and forgotten.
package footprint

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// niceValue is the priority of a profiler: what it does is little, but where CPUs
	// are busy the kernel's buffers overflow when it comes late. Programs that are
	// meant to run before others use -10 at most, and this is above them.
	niceValue = -15
	// timerSlack is by how many nanoseconds the kernel may be late to end a sleep, so
	// that it can end several at once. The monitor of Go's runtime sleeps for 20 us at a
	// time while anything runs, which costs more than much of what runs. With this slack
	// it sleeps for the 10 ms that are its longest. Nothing here needs a finer clock.
	timerSlack = "10000000"
	// cpusPerProcessor is how many CPUs are profiled by one that runs Go code. What a
	// second one could take over is less than what it costs to wake it.
	cpusPerProcessor = 8
)

// Lower makes this process interrupt others as seldom as possible, and run at once
// when it does: few CPUs run Go code (unless GOMAXPROCS is set), all threads have a
// high priority (unless the process was started with a nice value), and timers may be
// late by 10 ms. Priority and timers need CAP_SYS_NICE; the rest is done without it.
func Lower() error {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), max(1, runtime.NumCPU()/cpusPerProcessor)))
	}
	nice, err := threadNice()
	if err != nil {
		return err
	}
	return eachThread(func(tid int) error {
		slack := os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid), []byte(timerSlack), 0o644)
		if nice != 0 {
			return slack
		}
		return errors.Join(setNice(tid), slack)
	})
}

// RaisePriority gives the calling goroutine a thread of its own, until it ends, that
// runs before others where CPUs are busy. It is for goroutines that empty the kernel's
// buffers: they take little (0.6 s of CPU time in the first 6 s of a busy machine), but
// the buffers overflow when they come late. Without the right to do so, nothing
// changes.
//
// After Lower it does nothing: the whole process has that priority then, and handing
// something from one thread to another costs more than most of what is handed over.
func RaisePriority() {
	if Raised() {
		return
	}
	runtime.LockOSThread()
	_ = setNice(0) // the calling thread
}

// Raised reports whether the calling goroutine runs before others where CPUs are busy: by RaisePriority, or by Lower.
func Raised() bool {
	nice, err := threadNice()
	return err == nil && nice <= niceValue
}

// threadNice returns the nice value of the calling thread.
func threadNice() (int, error) {
	raised, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return 20 - raised, os.NewSyscallError("getpriority", err) // the system call returns 1 to 40, getpriority(2)
}

func setNice(tid int) error {
	return os.NewSyscallError("setpriority", unix.Setpriority(unix.PRIO_PROCESS, tid, niceValue))
}

// eachThread calls f once for every thread of this process. A thread that starts
// later inherits what f gave to the thread that starts it.
func eachThread(f func(tid int) error) error {
	seen := map[int]bool{}
	for more := true; more; {
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil || seen[tid] {
				continue
			}
			if err := f(tid); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			seen[tid], more = true, true
		}
	}
	return nil
}
