package tools

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/compare"
	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/need"
)

// runs records a build of testdata/slower.c a number of times.
func runs(t *testing.T, name string, work, n int) (files []string) {
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), name)
	gcc := exec.Command("gcc", "-O1", fmt.Sprint("-DWORK=", work), "-o", program, "testdata/slower.c")
	out, err := gcc.CombinedOutput()
	require.NoError(t, err, string(out))
	for range n {
		folder, _, _, code := record(t, "-q", "-F", "4999", "--", program, "3000")
		require.Equal(t, 0, code)
		files = append(files, filepath.Join(folder, "headwater.pb.gz"))
	}
	return files
}

// diff runs headwater diff, and returns its report and its exit code.
func diff(t *testing.T, args ...string) (r compare.Report, code int) {
	cmd := exec.Command(lab.Binary(t), append([]string{"diff", "--json", "--check"}, args...)...)
	var text, err strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &err
	_ = cmd.Run() // the exit code says how it went
	require.NoError(t, json.Unmarshal([]byte(text.String()), &r), err.String())
	return r, cmd.ProcessState.ExitCode()
}

// TestDiff: a function that is a fifth slower is the first that diff names, in five comparisons of five, and of equal
// builds none is named, in twenty of twenty.
func TestDiff(t *testing.T) {
	base, slower := runs(t, "shop", 100, 6), runs(t, "shop.new", 120, 4)
	sides := threeOf(base)
	for i, side := range sides {
		other := sides[len(sides)-1-i] // the three that side has not
		r, code := diff(t, "--per", "run", side, other)
		require.Empty(t, r.Changed, "of equal builds, %s and %s", side, other)
		require.Zero(t, code)
	}
	for i, after := range append(threeOf(slower), strings.Join(slower, ",")) {
		r, code := diff(t, "--per", "run", sides[i], after)
		require.NotEmpty(t, r.Changed, "comparison %d: %+v", i, r.Others[:3])
		c := r.Changed[0]
		t.Logf("%s %.3f s, then %.3f s: %.2f to %.2f times as much; runs differ by %.1f %%", c.Name, c.Base, c.New, c.Low,
			*c.High, 100**r.Spread)
		require.Equal(t, "price", c.Name)
		require.True(t, c.Low < 1.2 && *c.High > 1.15, "a fifth more work is between %.2f and %.2f", c.Low, *c.High)
		require.Equal(t, 1, code)
	}
}

// threeOf returns all ways to take three of files; the one from the end is of the others where there are six.
func threeOf(files []string) (out []string) {
	for a := range files {
		for b := a + 1; b < len(files); b++ {
			for c := b + 1; c < len(files); c++ {
				out = append(out, strings.Join([]string{files[a], files[b], files[c]}, ","))
			}
		}
	}
	return out
}
