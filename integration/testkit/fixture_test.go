package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFixture makes a fixture once, another for another key, and none of a failed build.
func TestFixture(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	builds := 0
	build := func(dir string) error {
		builds++
		return os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600)
	}
	first := Fixture(t, "one", []string{"a", "bc"}, build)
	require.FileExists(t, filepath.Join(first, "file"))
	require.Equal(t, first, Fixture(t, "one", []string{"a", "bc"}, build))
	require.Equal(t, 1, builds)
	require.NotEqual(t, first, Fixture(t, "one", []string{"ab", "c"}, build))
	require.Equal(t, 2, builds)

	failed := errors.New("no compiler")
	_, err := fixture("two", nil, func(string) error { return failed })
	require.ErrorIs(t, err, failed)
	require.Equal(t, 2, builds)
	require.FileExists(t, filepath.Join(Fixture(t, "two", nil, build), "file"))
}
