package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// TestGo386 records a 32-bit Go program, with symbols and stripped of them and of DWARF: the time that it spends in one
// function lies below 21 calls of another.
func TestGo386(t *testing.T) {
	need.Root(t)
	lab.Need32Bit(t)
	for name, flags := range map[string]string{"hwgo": "", "hwgostripped": "-s -w"} {
		program := filepath.Join(t.TempDir(), name)
		build := exec.Command("go", "build", "-o", program, "-ldflags="+flags, "./testdata/deep386")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=386", "GOFLAGS=")
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s", out)
		retry.Run(t, func(t *retry.T) { tryGo386(t, program) })
	}
}

func tryGo386(t *retry.T, program string) {
	file := filepath.Join(t.TempDir(), "a.pb.gz")
	out, err := exec.Command(lab.Binary(t), "record", "-o", file, "--", program, "2s").CombinedOutput()
	require.NoError(t, err, "%s", out)
	all := lab.OfCommand(lab.Stacks(readProfile(t, file)), filepath.Base(program))
	whole := int64(0)
	for _, s := range all {
		names := s.Names()
		at := slices.Index(names, "main.burn")
		if at < 0 {
			continue
		}
		chain := strings.Join(names[:at], " ")
		if !strings.Contains(chain, "runtime.goexit runtime.main main.main "+strings.Repeat("main.call ", 21)+"sort.Slice ") {
			t.Errorf("a stack of %s has %s", program, chain)
		}
		whole += s.Value
	}
	if whole == 0 || whole < lab.Total(all)*9/10 {
		t.Errorf("%d of %d ms are below all calls:\n%s", whole/1e6, lab.Total(all)/1e6, lab.Show(all, 10))
	}
}
