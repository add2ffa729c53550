package clock

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadCPU returns the CPU time of the calling thread so far.
func ThreadCPU() time.Duration {
	var used unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used) != nil {
		return 0 // cannot be: the clock exists
	}
	return time.Duration(used.Nano())
}

// CPUTime calls do, and returns the CPU time that this took on its thread, without what the garbage collector adds.
func CPUTime(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := ThreadCPU()
	do()
	return ThreadCPU() - before
}
