package procfs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 on all machines.
const tick = time.Second / 100

// Started returns when a process began, to about a hundredth of a second (proc_pid_stat(5), starttime).
func (f FS) Started(pid uint32) (time.Time, error) {
	began, err := f.statNumbers(pid, 22)
	if err != nil {
		return time.Time{}, err
	}
	var booted unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &booted); err != nil {
		return time.Time{}, fmt.Errorf("read the time since boot: %w", err)
	}
	return time.Now().Add(time.Duration(began[0])*tick - time.Duration(booted.Nano())), nil
}

// CPUTime returns the CPU time of a process, with all its threads, so far, to a hundredth of a second
// (proc_pid_stat(5), utime and stime).
func (f FS) CPUTime(pid uint32) (time.Duration, error) {
	used, err := f.statNumbers(pid, 14, 15)
	if err != nil {
		return 0, err
	}
	return time.Duration(used[0]+used[1]) * tick, nil
}
