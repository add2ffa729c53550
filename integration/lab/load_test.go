package lab

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestLoadEnds: the load of a host ends on a signal before its time is over, and has all of its sources.
func TestLoadEnds(t *testing.T) {
	need.Tools(t, "g++", "perl")
	load := Start(t, exec.Command("../load", "mixed", "600"))
	time.Sleep(3 * time.Second) // it has started programs
	require.False(t, load.Ended(), load.Output)
	load.Signal(t, syscall.SIGTERM)
	load.Wait(t, 30*time.Second)
	require.NotContains(t, load.Output.String(), "No such file")
}
