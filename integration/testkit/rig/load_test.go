package rig

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestLoadEnds: the load of a host ends on a signal before its time is over, and has all of its sources.
func TestLoadEnds(t *testing.T) {
	need.Tools(t, "g++", "perl")
	load := Start(t, exec.Command("../../load", "mixed", "600"))
	children := fmt.Sprintf("/proc/%d/task/%[1]d/children", load.PID())
	testkit.Eventually(t, "the load has started programs", func() bool {
		require.False(t, load.Ended(), load.Output)
		return len(strings.Fields(ReadFile(t, children))) >= 5
	})
	load.Signal(t, syscall.SIGTERM)
	load.Wait(t, 2*time.Minute)
	require.NotContains(t, load.Output.String(), "No such file")
}
