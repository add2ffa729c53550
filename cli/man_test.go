package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// TestManual: man(1) shows the pages, each command has one, and they name its flags.
func TestManual(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man1")
	_, stderr, code := call(t, "man", "-o", folder)
	require.Equal(t, 0, code, stderr)
	for _, c := range Command().Commands() {
		require.FileExists(t, filepath.Join(folder, "headwater-"+c.Name()+".1"))
	}
	page, err := os.ReadFile(filepath.Join(folder, "headwater-record.1"))
	require.NoError(t, err)
	stdout, stderr, code := call(t, "man", "record")
	require.Equal(t, 0, code, stderr)
	require.Equal(t, string(page), stdout)

	need.Tools(t, "man")
	text, err := exec.Command("man", "-l", "-P", "cat", filepath.Join(folder, "headwater-record.1")).Output()
	require.NoError(t, err)
	require.Contains(t, string(text), "NAME\n       headwater-record - Record a profile, and write it to one file")
	require.Contains(t, string(text), "-F, --freq=99      samples per second and CPU\n")
}

func TestManualRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		`there is no command "none"`: {"man", "none"},
		"remove record":              {"man", "-o", t.TempDir(), "record"},
		"not a directory":            {"man", "-o", filepath.Join(os.DevNull, "man1")},
	} {
		_, stderr, code := call(t, args...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, name)
	}
}
