package tools

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestWorkersOfTheKernel: threads that the kernel makes in a process for itself, such as io_uring's, have only kernel
// frames: no frame of the program, and no mark of a missing one.
func TestWorkersOfTheKernel(t *testing.T) {
	t.Parallel()
	need.Root(t)
	program := filepath.Join(t.TempDir(), "hwuring")
	rig.Compile(t, "gcc", "-O1", "-g", "-o", program, "testdata/uring.c")
	if err := exec.Command(program).Run(); err != nil {
		need.Missing(t, "io_uring cannot be used here: %v", err)
	}
	folder, _, _, code := record(t, "-F", "499", "--threads", "-o", "out.pb.gz", "--", program)
	require.Equal(t, 0, code)
	workers := 0
	for _, s := range rig.Stacks(readProfile(t, folder, "out.pb.gz")) {
		names := strings.Join(s.Names(), ";")
		if !strings.Contains(names, "io_wq_worker") {
			require.NotContains(t, names, "no_mapping")
			continue
		}
		workers++
		require.NotContains(t, names, "[incomplete")
		require.NotContains(t, names, "[unknown")
	}
	require.NotZero(t, workers)
}
