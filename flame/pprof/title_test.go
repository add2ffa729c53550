package pprof

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTitle checks the first line of the output of go tool pprof.
func TestTitle(t *testing.T) {
	for title, want := range map[string]string{
		"all targets":    "File: all targets",
		"ebpf/shop/cart": "File: ebpf_shop_cart",
		"kworker/0:1":    "File: kworker_0_1",
		"app":            "File: app",
		"libc.so.6":      "File: libc.so.6",
	} {
		b := NewBuilder(testOptions())
		b.Add([]*Location{named("/no/such/libc.so.6", "write", 0x2345), named("/no/such/app", "main", 0x1234)}, 2e9, nil)
		p := b.Profile()
		SetTitle(p, title)
		require.NoError(t, p.CheckValid())
		encoded, err := Encode(p)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "cpu.pb.gz")
		require.NoError(t, os.WriteFile(file, encoded, 0o600))
		top, err := exec.Command("go", "tool", "pprof", "-symbolize=none", "-top", file).CombinedOutput()
		require.NoError(t, err, string(top))
		first, _, _ := strings.Cut(string(top), "\n")
		require.Equal(t, want, first)
		require.Contains(t, string(top), "write")
	}
}
