package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRunCalmly: all threads of headwater run have its priority and slack, those too
// that start later; but a nice value that it was started with stays.
func TestRunCalmly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	config := writeConfig(t, "")
	startAt := func(nice int) *running {
		runtime.LockOSThread() // a new process has the nice value of the thread that starts it
		before, err := niceValue()
		require.NoError(t, err)
		defer runtime.UnlockOSThread()
		defer func() { require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, before)) }()
		require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, nice))
		return startRun(t, config)
	}
	r := startAt(0)
	r.hangs()
	r.expectThreads(urgent)
	startAt(3).expectThreads(3)
}

func (r *running) expectThreads(nice int) {
	r.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", r.cmd.Process.Pid))
	require.NoError(r.t, err)
	require.NotEmpty(r.t, threads)
	for _, thread := range threads {
		stat, err := os.ReadFile(thread + "/stat")
		require.NoError(r.t, err)
		_, fields, _ := strings.Cut(string(stat), ") ")
		require.Equal(r.t, fmt.Sprint(nice), strings.Fields(fields)[16], "proc(5), field 19: %s", stat)
		got, err := os.ReadFile("/proc/" + filepath.Base(thread) + "/timerslack_ns")
		require.NoError(r.t, err)
		require.Equal(r.t, slack, strings.TrimSpace(string(got)))
	}
}
