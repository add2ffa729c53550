package lab

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestLoadEnds: what loads a host ends when it is told to, though it was to run for longer, and has all of its sources.
func TestLoadEnds(t *testing.T) {
	need.Tools(t, "g++", "perl")
	load := Start(t, exec.Command("../load", "mixed", "600"))
	time.Sleep(3 * time.Second) // it has begun to run programs
	require.False(t, load.Ended(), load.Output)
	load.Signal(t, syscall.SIGTERM)
	load.Wait(t, 30*time.Second)
	require.NotContains(t, load.Output.String(), "No such file")
}
