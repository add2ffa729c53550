package tools

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestLeaderless: a process whose first thread has ended first has complete stacks: if the thread had ended before the
// recording, and in stack.
func TestLeaderless(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "hwleaderless")
	rig.Compile(t, "gcc", "-O1", "-g", "-pthread", "-o", program, "testdata/leaderless.c")
	running := rig.Start(t, exec.Command(program, "0", "600"))
	defer running.Kill(t)
	testkit.Eventually(t, "the first thread has ended", func() bool {
		return strings.Contains(rig.ReadFile(t, fmt.Sprintf("/proc/%d/status", running.PID())), "State:\tZ")
	})
	folder, _, _, code := record(t, "-p", fmt.Sprint(running.PID()), "-d", "2", "-F", "199", "-o", "out.pb.gz")
	require.Equal(t, 0, code)
	requireLeaderless(t, folder)

	out, err := exec.Command(rig.Binary(t), "stack", fmt.Sprint(running.PID())).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "hwouter")
}

// TestFirstThreadEnds: the same where the first thread ends while its process is recorded.
func TestFirstThreadEnds(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "hwleaderless")
	rig.Compile(t, "gcc", "-O1", "-g", "-pthread", "-o", program, "testdata/leaderless.c")
	folder, _, _, code := record(t, "-F", "199", "-o", "out.pb.gz", "--", program, "100", "8")
	require.Equal(t, 0, code)
	requireLeaderless(t, folder)
}

func requireLeaderless(t *testing.T, folder string) {
	t.Helper()
	all := rig.Stacks(readProfile(t, folder, "out.pb.gz"))
	whole := int64(0)
	for _, s := range all {
		names := s.Names()
		at := slices.Index(names, "work")
		if at > 0 && slices.Contains(names[at:], "hwouter") {
			whole += s.Value
		}
	}
	if total := rig.Total(all); total == 0 || whole < total*7/10 { // it may be a second until it is noticed
		t.Errorf("%d of %d ms have the functions that run:\n%s", whole/1e6, total/1e6, rig.Show(all, 5))
	}
}
