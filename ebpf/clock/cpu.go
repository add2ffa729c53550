package clock

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime calls do, and returns the CPU time that this took on its thread, without what the garbage collector adds.
func CPUTime(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &before) != nil {
		do()
		return 0
	}
	do()
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &after) != nil {
		return 0
	}
	return time.Duration(after.Nano() - before.Nano())
}
