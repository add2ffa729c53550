package probe

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestRedZone: a probe at an instruction that the kernel may replace by a call does not damage the program: it is
// refused where it would do so, but not elsewhere in the function.
func TestRedZone(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "hwredzone")
	out, err := exec.Command("gcc", "-O1", "-o", program, "testdata/redzone.c").CombinedOutput()
	require.NoError(t, err, "%s", out)

	// The program ends with an error if its data was changed.
	_, stats := runProbed(t, program, []string{"uprobe:" + program + ":changed+18"})
	require.EqualValues(t, 1, stats.Attached+stats.Failed)
	for text := range stats.Errors {
		require.Contains(t, text, "is a 5-byte nop: this kernel, like Linux 6.18 and newer, replaces it by a call")
	}
	found, stats := runProbed(t, program, []string{"uprobe:" + program + ":changed", "uprobe:" + program + ":changed+23"})
	require.EqualValues(t, 2, stats.Attached, "%v", stats.Errors)
	require.EqualValues(t, 2*calls, found["uprobe_changed/count"].sum)
}
