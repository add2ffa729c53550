package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestControlGroups runs tests that make control groups one after another: each removes all that have no process in
// them.
func TestControlGroups(t *testing.T) {
	t.Parallel()
	t.Run("recorded", testRecordedGroups)
	t.Run("out of memory", testOutOfMemory)
	t.Run("throttled", testThrottled)
}

// limitedGroup makes a control group with a limit, named as version 1 of control groups does, or version 2. It returns
// its folder.
func limitedGroup(t testing.TB, controller string, limits map[string]string) string {
	t.Helper()
	need.Root(t)
	for _, root := range []string{filepath.Join("/sys/fs/cgroup", controller), "/sys/fs/cgroup"} {
		group := filepath.Join(root, rig.CgroupRoot(), "limited")
		if os.MkdirAll(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { rig.RemoveCgroups(t) })
		for file, text := range limits {
			if os.WriteFile(filepath.Join(group, file), []byte(text), 0o644) == nil {
				return group
			}
		}
	}
	need.Missing(t, "control groups cannot limit %s", controller)
	return ""
}

// inGroup returns a command that runs another in a control group.
func inGroup(group string, command ...string) []string {
	return append([]string{"--", "sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group}, command...)
}

// testOutOfMemory: a process that is killed at the memory limit of its control group has left in the profile who used
// the memory.
func testOutOfMemory(t *testing.T) {
	const limit = 64 << 20
	program := compiled(t, "hwhog", "gcc", "-O1", "-g", "testdata/hog.c")
	group := limitedGroup(t, "memory", map[string]string{
		"memory.limit_in_bytes": strconv.Itoa(limit), "memory.max": strconv.Itoa(limit),
	})
	args := append([]string{"-e", "page-faults", "-c", "16"}, inGroup(group, program, "memory")...)
	folder, _, stderr, code := record(t, args...)
	require.Equal(t, 128+9, code, "it is killed\n%s", stderr)
	got := valueOf(readProfile(t, folder, "headwater.pb.gz"), "hog_memory", "space")
	t.Logf("%.1f MiB, the limit is %d", got/(1<<20), limit>>20)
	require.InEpsilon(t, limit, got, 0.1)
}

// testThrottled: a busy thread in a control group that may use a twentieth of a CPU is queued at the place where it
// lost its CPU, for as long as it had none by its own clocks: at least for the time that the kernel reports as
// throttled, and longer if other processes use the CPUs.
func testThrottled(t *testing.T) {
	const seconds = 6
	program := compiled(t, "hwhog", "gcc", "-O1", "-g", "testdata/hog.c")
	group := limitedGroup(t, "cpu", map[string]string{"cpu.cfs_quota_us": "5000", "cpu.max": "5000 100000"})
	before := throttled(t, group)
	command := inGroup(group, program, "cpu", fmt.Sprint(seconds))
	folder, stdout, stderr, code := record(t, append([]string{"-e", "wall"}, command...)...)
	require.Equal(t, 0, code, stderr)
	want, err := strconv.ParseFloat(strings.TrimSpace(stdout), 64)
	require.NoError(t, err)
	limited := throttled(t, group) - before
	queued := secondsOf(readProfile(t, folder, "headwater.pb.gz"), func(s *profile.Sample) bool {
		here := hasFunction(s, "hog_cpu") || hasFunction(s, "[incomplete: moved]") // it ran before its stack was read
		return here && waitsFor("run_queue")(s)
	})
	near(t, "without a CPU", queued, want, 0.2)
	ran := seconds - want
	t.Logf("throttled for %.2f s, ran for %.2f s", limited, ran)
	if limited > 1.2*queued {
		t.Errorf("throttled for %.2f s, but queued for %.2f s", limited, queued)
	}
	if limited == 0 && ran > 0.06*seconds { // other processes may leave it less than its limit
		t.Errorf("never throttled, but ran for %.2f of %d s", ran, seconds)
	}
}

// throttled returns for how many seconds the threads of a control group were not let run.
func throttled(t testing.TB, group string) float64 {
	text, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var name string
		var n float64
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			continue
		}
		switch name {
		case "throttled_time":
			return n / 1e9
		case "throttled_usec":
			return n / 1e6
		}
	}
	t.Fatalf("no time in %s", text)
	return 0
}
