package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
)

// enterTree makes a repository with one commit the working directory.
func enterTree(t *testing.T) (commit string) {
	t.Helper()
	need.Tools(t, "git")
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("code.go", []byte("package x\n"), 0o644))
	for _, arguments := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "x"}} {
		out, err := exec.Command("git", arguments...).CombinedOutput()
		require.NoError(t, err, "git %v: %s", arguments, out)
	}
	out, err := exec.Command("git", "rev-parse", "HEAD").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func TestSave(t *testing.T) {
	commit := enterTree(t)
	r, err := Start("make figure")
	require.NoError(t, err)
	path := filepath.Join("integration", "lab", "results", "figure.json")
	t.Setenv("HOME", "/home/me")
	require.NoError(t, r.Save(path, map[string]any{"seconds": 1.5, "file": "/home/me/x"}))

	var values struct {
		Seconds float64
		File    string
	}
	saved, err := Read(path, &values)
	require.NoError(t, err)
	require.Equal(t, 1.5, values.Seconds)
	require.Equal(t, "~/x", values.File)
	require.Equal(t, "make figure", saved.Command)
	require.Len(t, saved.Commit, 12)
	require.True(t, strings.HasPrefix(commit, saved.Commit))
	require.False(t, saved.Dirty)
	require.Equal(t, runtime.NumCPU(), saved.Machine.CPUs)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(release)), saved.Machine.Kernel)
	require.GreaterOrEqual(t, saved.Seconds, lookTime.Seconds())
}

// TestDirty: what counts is the code, not the records and tables that are written.
func TestDirty(t *testing.T) {
	enterTree(t)
	write := func(path string) bool {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("package y\n"), 0o644))
		_, dirty, err := treeState()
		require.NoError(t, err)
		return dirty
	}
	require.False(t, write("integration/lab/results/x.json"))
	require.False(t, write("README.md"))
	require.True(t, write("code.go"))
}

func TestNoTree(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GIT_CEILING_DIRECTORIES", "/")
	_, err := Start("make figure")
	require.ErrorContains(t, err, "the commit of this tree")
}

// TestBusy keeps the CPUs busy while the recorder looks.
func TestBusy(t *testing.T) {
	enterTree(t)
	var stop atomic.Bool
	defer stop.Store(true)
	for range runtime.NumCPU() {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	r, err := Start("make figure")
	require.NoError(t, err)
	require.ErrorIs(t, r.Quiet(), ErrBusy)
	require.NoError(t, r.Save("x.json", 1))
	saved, err := Read("x.json", nil)
	require.NoError(t, err)
	require.True(t, saved.Busy)
	require.Greater(t, saved.Before.CPU, float64(busyFrom))
}

func TestQuiet(t *testing.T) {
	r := &Recorder{record: Record{Before: Load{CPU: busyFrom}}}
	require.NoError(t, r.Quiet())
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"{":                    "unexpected end of JSON input",
		"{}":                   "a record without ",
		`{"values": null}`:     "values",
		`{"date": "yesterday"`: "x.json: ",
	} {
		path := filepath.Join(t.TempDir(), "x.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := Read(path, nil)
		require.ErrorContains(t, err, want)
	}
	_, err := Read(filepath.Join(t.TempDir(), "none.json"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// fakeT is a test that has failed, or not.
type fakeT struct {
	T
	failed bool
}

func (fakeT) Helper()        {}
func (f fakeT) Failed() bool { return f.failed }

func TestRecordOfATest(t *testing.T) {
	enterTree(t)
	t.Setenv(Directory, "")
	Test(t, "crash", "make crash")(1)
	require.NoFileExists(t, "crash.json")

	results := filepath.Join(t.TempDir(), "results")
	t.Setenv(Directory, results)
	Test(fakeT{T: t, failed: true}, "crash", "make crash")(1)
	require.NoFileExists(t, filepath.Join(results, "crash.json"))

	Test(fakeT{T: t}, "crash", "make crash")(map[string]int{"kills": 200})
	var values map[string]int
	saved, err := Read(filepath.Join(results, "crash.json"), &values)
	require.NoError(t, err)
	require.Equal(t, "make crash", saved.Command)
	require.Equal(t, map[string]int{"kills": 200}, values)
}
