package filematch

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/river"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
)

func TestMatch(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.log", "b.log", "b.txt", "sub/deep/c.log"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	patterns := []discovery.Target{
		{"__path__": dir + "/**/*.log", "__path_exclude__": dir + "/b*", "job": "x"},
		{"__path__": dir + "/none"}, {"__path__": dir + "/b.txt"},
	}
	found, err := match(patterns, 0)
	require.NoError(t, err)
	require.Equal(t, []discovery.Target{
		{"__path__": dir + "/a.log", "__path_exclude__": dir + "/b*", "job": "x"},
		{"__path__": dir + "/sub/deep/c.log", "__path_exclude__": dir + "/b*", "job": "x"},
		{"__path__": dir + "/b.txt"},
	}, found)

	long := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{"a.log", "b.txt"} {
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), long, long))
	}
	found, err = match(patterns, 24*time.Hour)
	require.NoError(t, err)
	require.Equal(t,
		[]discovery.Target{{"__path__": dir + "/sub/deep/c.log", "__path_exclude__": dir + "/b*", "job": "x"}}, found)
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	count := -1
	built, err := Registration().Build(component.Options{Logger: log.NewNopLogger(),
		OnStateChange: func(e component.Exports) {
			mu.Lock()
			defer mu.Unlock()
			count = len(e.(discovery.Exports).Targets)
		}}, Arguments{PathTargets: []discovery.Target{{"__path__": dir + "/*"}}, SyncPeriod: time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- built.Run(ctx) }()
	is := func(want int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return count == want }
	}
	require.Eventually(t, is(0), 2*time.Minute, time.Millisecond)
	require.NoError(t, os.WriteFile(dir+"/a", nil, 0o644))
	require.Eventually(t, is(1), 2*time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

func TestArguments(t *testing.T) {
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(`path_targets = [{"__path__" = "/var/log/*"}]`), &args))
	require.Equal(t, 10*time.Second, args.SyncPeriod)
	require.ErrorContains(t, river.Unmarshal([]byte(`path_targets = [{"__path__" = "/[a"}]`), &args),
		"not a valid pattern")
	require.ErrorContains(t, river.Unmarshal([]byte("path_targets = []\nsync_period = \"0s\""), &args),
		"must be greater than 0")
	require.ErrorContains(t, river.Unmarshal([]byte("path_targets = []\nignore_older_than = \"-1s\""), &args),
		"must not be negative")
}
