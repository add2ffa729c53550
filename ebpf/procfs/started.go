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
	path := f.path(pid, "/stat")
	b, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	const after, tick = 19, time.Second / 100 // field 22, of those after the name; USER_HZ is 100 on all machines
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= after {
		return time.Time{}, fmt.Errorf("%s: %d fields after the name", path, len(fields))
	}
	ticks, err := strconv.ParseInt(fields[after], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: starttime: %w", path, err)
	}
	var booted unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &booted); err != nil {
		return time.Time{}, fmt.Errorf("read the time since boot: %w", err)
	}
	return time.Now().Add(time.Duration(ticks)*tick - time.Duration(booted.Nano())), nil
}
