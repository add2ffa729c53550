package outfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeep: the file appears when it is kept; until then the old content stays.
func TestKeep(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "out")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := Create(path)
	require.NoError(t, err)
	_, err = f.Write([]byte("new"))
	require.NoError(t, err)
	requireContent(t, path, "old")
	require.NoError(t, f.Keep())
	require.NoError(t, f.Discard())
	requireContent(t, path, "new")
	require.EqualValues(t, 3, f.Size())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	requireFiles(t, folder, 1)
}

// TestDiscard: a discarded file leaves no traces.
func TestDiscard(t *testing.T) {
	folder := t.TempDir()
	f, err := Create(filepath.Join(folder, "out"))
	require.NoError(t, err)
	require.NoError(t, f.Discard())
	require.NoError(t, f.Discard())
	requireFiles(t, folder, 0)
}

// TestCreateRefuses: what cannot be written is known at once.
func TestCreateRefuses(t *testing.T) {
	folder := t.TempDir()
	_, err := Create(folder)
	require.ErrorContains(t, err, "is a folder")
	_, err = Create(filepath.Join(folder, "none", "out"))
	require.ErrorContains(t, err, "none/out cannot be written: no such file or directory")
}

// TestDevice: a device is written to, not replaced.
func TestDevice(t *testing.T) {
	f, err := Create(os.DevNull)
	require.NoError(t, err)
	_, err = f.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, f.Keep())
	info, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular())
}

func requireContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func requireFiles(t *testing.T, folder string, want int) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, want)
}

// TestAbandon: what another goroutine still writes is gone, and a file that was kept stays.
func TestAbandon(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "out")
	f, err := Create(path)
	require.NoError(t, err)
	require.True(t, f.Abandon())
	_, err = f.Write([]byte("late"))
	require.NoError(t, err)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)

	f, err = Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Keep())
	require.False(t, f.Abandon())
	require.FileExists(t, path)
}
