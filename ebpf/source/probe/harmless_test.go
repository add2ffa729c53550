package probe

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestReturnsAreHarmless: programs whose functions throw exceptions, or whose stacks move, print the same with and
// without a uretprobe, and each return is a hit.
func TestReturnsAreHarmless(t *testing.T) {
	need.Root(t)
	need.Tools(t, "g++")
	dir := t.TempDir()
	throws, grows := filepath.Join(dir, "throws"), filepath.Join(dir, "grows")
	out, err := exec.Command("g++", "-O2", "-o", throws, "testdata/throws.cc").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command("go", "build", "-o", grows, "testdata/grows.go").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, c := range []struct {
		link, program string
		returns       int
	}{
		{"uretprobe:" + throws + ":parse", throws, calls - calls/10},
		{"uretprobe:" + grows + ":main.target", grows, calls},
	} {
		t.Run(filepath.Base(c.program), func(t *testing.T) {
			alone := exec.Command(c.program, strconv.Itoa(calls))
			alone.Stdin = strings.NewReader("\n")
			want, err := alone.Output()
			require.NoError(t, err)

			var got bytes.Buffer
			found, stats := runProbedTo(t, c.program, []string{c.link}, &got)
			require.Empty(t, stats.Errors)
			require.Equal(t, string(want), got.String())
			require.Len(t, found, 1)
			for name, seen := range found {
				require.EqualValues(t, c.returns, seen.sum, name)
			}
		})
	}
}

// TestRefusesTheMiddleOfInstructions: a probe inside an instruction would change the results of the program.
func TestRefusesTheMiddleOfInstructions(t *testing.T) {
	need.Tools(t, "g++")
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "the instructions are those of amd64")
	}
	program := filepath.Join(t.TempDir(), "throws")
	out, err := exec.Command("g++", "-O2", "-o", program, "testdata/throws.cc").CombinedOutput()
	require.NoError(t, err, "%s", out)
	refused := 0
	for offset := 1; offset < 12; offset++ { // the function has an instruction of 10 bytes, and many of more than one
		p, err := Parse("uprobe:" + program + ":parse+" + strconv.Itoa(offset))
		require.NoError(t, err)
		if _, err := p.Events(); err != nil {
			require.ErrorContains(t, err, "no instruction is known to start at +"+strconv.Itoa(offset))
			refused++
		}
	}
	require.Greater(t, refused, 5)
	require.Less(t, refused, 11)
}
