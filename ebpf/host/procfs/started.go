package procfs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 on all machines.
const tick = time.Second / 100

// Started returns when a process started, to about a hundredth of a second (proc_pid_stat(5), starttime).
func (f FS) Started(pid uint32) (time.Time, error) {
	began, err := f.statNumbers(pid, 22)
	if err != nil {
		return time.Time{}, err
	}
	age, err := ageOf(began[0])
	if err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-age), nil
}

// ageOf returns how long ago a process with the given starttime started.
func ageOf(start uint64) (time.Duration, error) {
	var booted unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &booted); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return time.Duration(booted.Nano()) - time.Duration(start)*tick, nil
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
