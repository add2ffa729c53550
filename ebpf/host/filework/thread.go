package filework

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/procfs/helper"
)

// threadRan returns the system's counts of a thread of this process: its CPU time and how often it started to run
// (Linux, Documentation/scheduler/sched-stats.rst). It returns "" if the system does not count that.
func threadRan(thread int) string {
	counts, err := os.ReadFile(taskFolder(thread) + "/schedstat")
	if err != nil {
		return ""
	}
	return string(counts)
}

// taskFolder returns the folder in /proc of a thread of this process or, if the thread waits for the helper, of the
// helper's thread.
func taskFolder(thread int) string {
	if pid, tid := helper.Serving(thread); tid != 0 {
		return fmt.Sprintf("/proc/%d/task/%d", pid, tid)
	}
	return fmt.Sprintf("/proc/self/task/%d", thread)
}

// waitsForRuntime is the system call in which Go lets a thread rest.
const waitsForRuntime = unix.SYS_FUTEX

// threadBlocked reports whether a thread of this process waits, but neither for a CPU nor for its turn in the Go
// scheduler. Thread 0 has not started, because it waits for a CPU.
func threadBlocked(thread int) bool {
	if thread == 0 {
		return false
	}
	text, err := os.ReadFile(taskFolder(thread) + "/syscall") // proc_pid_syscall(5)
	if err != nil {
		return true
	}
	number, _, _ := strings.Cut(string(text), " ")
	return number != "running\n" && number != strconv.Itoa(waitsForRuntime)
}
