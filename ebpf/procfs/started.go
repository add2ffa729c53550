package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Started returns when a process began, to about a hundredth of a second (proc_pid_stat(5), starttime).
func (f FS) Started(pid uint32) (time.Time, error) {
	began, err := f.statTimes(pid, 22)
	if err != nil {
		return time.Time{}, err
	}
	var booted unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &booted); err != nil {
		return time.Time{}, fmt.Errorf("read the time since boot: %w", err)
	}
	return time.Now().Add(began[0] - time.Duration(booted.Nano())), nil
}

// CPUTime returns the CPU time of a process, with all its threads, so far, to a hundredth of a second
// (proc_pid_stat(5), utime and stime).
func (f FS) CPUTime(pid uint32) (time.Duration, error) {
	used, err := f.statTimes(pid, 14, 15)
	if err != nil {
		return 0, err
	}
	return used[0] + used[1], nil
}

// statTimes returns fields of /proc/PID/stat that are times, by their numbers there.
func (f FS) statTimes(pid uint32, numbers ...int) (times []time.Duration, err error) {
	const tick = time.Second / 100 // USER_HZ is 100 on all machines
	const afterName = 3
	path := f.path(pid, "/stat")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	for _, number := range numbers {
		if len(fields) <= number-afterName {
			return nil, fmt.Errorf("%s: %d fields after the name", path, len(fields))
		}
		ticks, err := strconv.ParseInt(fields[number-afterName], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: field %d: %w", path, number, err)
		}
		times = append(times, time.Duration(ticks)*tick)
	}
	return times, nil
}
