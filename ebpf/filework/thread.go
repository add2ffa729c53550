package filework

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/procfs/helper"
)

// threadRan returns what the system counts of a thread of this process: CPU time, and
// how often it began to run (Linux, Documentation/scheduler/sched-stats.rst); ""
// where that is not counted.
func threadRan(thread int) string {
	counts, err := os.ReadFile(taskFolder(thread) + "/schedstat")
	if err != nil {
		return ""
	}
	return string(counts)
}

// taskFolder returns the folder in /proc of a thread of this process or, if it waits for the helper, of the helper's
// thread.
func taskFolder(thread int) string {
	if pid, tid := helper.Serving(thread); tid != 0 {
		return fmt.Sprintf("/proc/%d/task/%d", pid, tid)
	}
	return fmt.Sprintf("/proc/self/task/%d", thread)
}

// waitsForRuntime is the system call in which Go lets a thread rest.
const waitsForRuntime = unix.SYS_FUTEX

// threadBlocked reports whether a thread of this process waits, and neither for a CPU nor for its turn among those that
// Go runs. One with the number 0 has not begun, which is because it waits for a CPU.
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
