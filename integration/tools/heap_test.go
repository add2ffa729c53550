package tools

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestHeap: for a program that leaks in one function and frees its memory in another, the memory in use at its end
// equals its allocator's figure, and belongs to the leak.
func TestHeap(t *testing.T) {
	t.Parallel()
	program := compiled(t, "hwleaks", "gcc", "-O1", "-g", "-pthread", "testdata/leaks.c")
	folder, stdout, stderr, code := record(t, "-e", "heap", "-c", "65536", "--heap-limit", "0", "--", program)
	require.Equal(t, 0, code, stderr)
	require.Regexp(t, `samples in .* s, one for each 64 KiB, \d+\.\d MiB in use`, stderr)
	var want float64
	_, err := fmt.Sscanf(stdout, "%f bytes in use", &want)
	require.NoError(t, err, stdout)
	p := readProfile(t, folder, "headwater.pb.gz")
	require.Equal(t, []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		p.SampleType)
	require.Equal(t, &profile.ValueType{Type: "space", Unit: "bytes"}, p.PeriodType)
	require.EqualValues(t, 64<<10, p.Period)
	leaked, churned := valueOf(p, "leak", "inuse_space"), valueOf(p, "churn", "inuse_space")
	t.Logf("leak has %.0f bytes, churn %.0f, the program says %.0f in all", leaked, churned, want)
	if math.Abs(leaked-want) > want/4 { // 640 samples: six standard deviations
		t.Errorf("leak has %.0f bytes in use, the program says %.0f", leaked, want)
	}
	if leaked < 0.9*valueOf(p, "main", "inuse_space") || churned > want/20 {
		t.Errorf("leak has %.0f bytes, churn %.0f, main %.0f", leaked, churned, valueOf(p, "main", "inuse_space"))
	}
}

// TestHeapFlags: for a Go program, which has its own allocator, no memory is in use, and a message says so.
func TestHeapFlags(t *testing.T) {
	t.Parallel()
	program := rig.Start(t, exec.Command(compiledGo(t, "hwallocates", "./testdata/allocates", "GOARCH="+runtime.GOARCH,
		"-ldflags=")))
	program.WaitBusy(t)
	folder, _, stderr, code := record(t, "-e", "heap", "--heap-limit", "0", "-d", "1", "-p", fmt.Sprint(program.PID()))
	require.NotZero(t, code)
	require.Contains(t, stderr, "no samples: no sampled allocation was live at the end")
	require.NoFileExists(t, filepath.Join(folder, "headwater.pb.gz"))
	_, _, stderr, code = record(t, "-e", "heap", "-c", "99999999999", "--", "true")
	require.NotZero(t, code)
	require.Contains(t, stderr, "--period must be at most")
}
