package filework

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// threadRan returns what the system counts of a thread of this process: CPU time, and
// how often it began to run (Linux, Documentation/scheduler/sched-stats.rst); ""
// where that is not counted. resting says that Go has put the thread to sleep.
func threadRan(thread int) (ran string, resting bool) {
	dir := fmt.Sprintf("/proc/self/task/%d/", thread)
	counts, err := os.ReadFile(dir + "schedstat")
	if err != nil {
		return "", false
	}
	call, err := os.ReadFile(dir + "syscall")
	if err != nil {
		return string(counts), false
	}
	number, _, _ := strings.Cut(string(call), " ")
	n, err := strconv.Atoi(number)
	return string(counts), err == nil && n == waitsForRuntime
}

// blocked reports whether a thread of this process waits, and not for a CPU. One with the number 0 has not begun, which
// is because it waits for a CPU.
func blocked(thread int) bool {
	if thread == 0 {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	if err != nil {
		return true
	}
	name := strings.LastIndexByte(string(text), ')') // its end; then comes the state, proc_pid_stat(5)
	return !strings.HasPrefix(string(text[name+1:]), " R")
}
