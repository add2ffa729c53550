// Package footprint reduces the cost of a profiler to its host: the CPU time that it takes from other programs, and its
// memory. Profiling works without it, so callers may log and ignore its errors.
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
	// niceValue is the priority of a profiler. It does little work, but on busy CPUs the kernel's buffers overflow when
	// it comes late. Programs that must run before other programs use nice values down to -10; the profiler runs before
	// them.
	niceValue = -15
	// timerSlack is the number of nanoseconds by which the kernel may delay the end of a sleep, so that it can end
	// several at once. The monitor of Go's runtime sleeps for 20 us at a time while any goroutine runs, which costs
	// more than much of the work. With this slack it sleeps for 10 ms, its maximum. The profiler needs no finer clock.
	timerSlack = "10000000"
	// cpusPerProcessor is the number of CPUs to profile per CPU that runs Go code. Waking a second CPU costs more than
	// the work that it could take over.
	cpusPerProcessor = 8
)

// Lower makes this process interrupt other programs as rarely as possible, but then run without delay: few CPUs run Go
// code (unless GOMAXPROCS is set), all threads have a high priority (unless the process was started with a nice value),
// and timers may be late by 10 ms. Priority and timers need CAP_SYS_NICE; the rest works without it.
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

// RaisePriority locks the calling goroutine to a thread, until the goroutine ends, and lets this thread run before
// other programs on busy CPUs. It is for goroutines that empty the kernel's buffers: they take little (0.6 s of CPU
// time in the first 6 s on a busy machine), but the buffers overflow when they come late. Without the necessary
// privilege the priority does not change.
//
// After Lower it has no effect: the whole process then has that priority, and handing work from one thread to another
// costs more than most of the work.
func RaisePriority() {
	if Raised() {
		return
	}
	runtime.LockOSThread()
	_ = setNice(0) // the calling thread
}

// Raised reports whether the calling goroutine has a high priority, from RaisePriority or from Lower.
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
