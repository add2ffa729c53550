package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestRunLowersFootprint: all threads of headwater run have its priority and timer
// slack, including those that start later; a nice value that it was started with stays.
func TestRunLowersFootprint(t *testing.T) {
	need.Root(t)
	config := writeConfig(t, "")
	startAt := func(nice int) *running {
		runtime.LockOSThread() // a new process has the nice value of the thread that starts it
		raised, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		require.NoError(t, err)
		before := 20 - raised // getpriority(2), C library/kernel differences
		defer runtime.UnlockOSThread()
		defer func() { require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, before)) }()
		require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, nice))
		return startRun(t, config)
	}
	r := startAt(0)
	r.hangs()
	r.expectThreads(-15)
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
		require.Equal(r.t, "10000000", strings.TrimSpace(string(got)))
	}
}
