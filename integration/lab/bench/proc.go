package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// parseFields reads lines of the form "name: value unit", as in /proc/PID/status and /proc/PID/fdinfo/N, and returns
// the decimal numbers by name; it leaves out other values.
func parseFields(text string) map[string]uint64 {
	fields := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		words := strings.Fields(value)
		if len(words) == 0 {
			continue
		}
		if n, err := strconv.ParseUint(words[0], 10, 64); err == nil {
			fields[name] = n
		}
	}
	return fields
}

// cpuTime returns the CPU time of all threads of a process, from its CPU clock. As in linux/posix-timers_types.h, the
// clock's number contains the complement of the process ID, and CPUCLOCK_SCHED, which is 2.
func cpuTime(pid int) (time.Duration, error) {
	const clockOfScheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|clockOfScheduler), &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// switches returns the machine's number of context switches so far.
func switches() (uint64, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(stat)) {
		if count, ok := strings.CutPrefix(line, "ctxt "); ok {
			return strconv.ParseUint(strings.TrimSpace(count), 10, 64)
		}
	}
	return 0, errors.New("/proc/stat has no line ctxt")
}

// memory returns the current and the peak resident memory of a process, in bytes.
func memory(pid int) (rss, peak uint64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := parseFields(string(status))
	return fields["VmRSS"] << 10, fields["VmHWM"] << 10, nil
}

// descriptor is an open BPF object of a process.
type descriptor struct {
	fd   int
	info map[string]uint64 // from /proc/PID/fdinfo
}

// descriptors returns the file descriptors of a process for one kind of BPF object: "bpf-prog" or "bpf-map".
func descriptors(pid int, kind string) ([]descriptor, error) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	var found []descriptor
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasSuffix(target, ":"+kind) {
			continue // a different object, or closed in the meantime
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, filepath.Base(link)))
		if err != nil {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(link))
		if err != nil {
			return nil, err
		}
		found = append(found, descriptor{fd: fd, info: parseFields(string(text))})
	}
	return found, nil
}

// loadAverage returns the first three figures of /proc/loadavg.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	words := strings.Fields(string(text))
	return strings.Join(words[:min(3, len(words))], " ")
}
