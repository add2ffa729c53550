package file

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
)

type rig struct {
	*Component
	mu      sync.Mutex
	exports []Exports
}

func (r *rig) last() Exports {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.exports) == 0 {
		return Exports{}
	}
	return r.exports[len(r.exports)-1]
}

func start(t *testing.T, args Arguments) *rig {
	t.Helper()
	r := &rig{}
	c, err := New(component.Options{Logger: log.NewNopLogger(), OnStateChange: func(e component.Exports) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.exports = append(r.exports, e.(Exports))
	}}, args)
	require.NoError(t, err)
	r.Component = c
	require.NotEmpty(t, r.exports, "in Build")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return r
}

func arguments(name string, detector Detector, poll time.Duration) Arguments {
	return Arguments{Filename: name, Detector: detector, PollFrequency: poll}
}

func TestChanges(t *testing.T) {
	for detector, poll := range map[Detector]time.Duration{DetectorFSNotify: time.Hour, DetectorPoll: time.Millisecond} {
		t.Run(string(detector), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(name, []byte("one"), 0o600))
			r := start(t, arguments(name, detector, poll))
			require.Equal(t, "one", r.last().Content.Value)
			is := func(want string) func() bool { return func() bool { return r.last().Content.Value == want } }

			require.NoError(t, os.WriteFile(name, []byte("two"), 0o600))
			require.Eventually(t, is("two"), 2*time.Minute, time.Millisecond)

			require.NoError(t, os.WriteFile(name+".new", []byte("three"), 0o600))
			require.NoError(t, os.Rename(name+".new", name)) // as editors do
			require.Eventually(t, is("three"), 2*time.Minute, time.Millisecond)

			require.NoError(t, os.Remove(name))
			require.Eventually(t, func() bool { return r.CurrentHealth().Health == component.HealthTypeUnhealthy },
				2*time.Minute, time.Millisecond)
			require.Equal(t, "three", r.last().Content.Value, "the last content stays")
			require.NoError(t, os.WriteFile(name, []byte("four"), 0o600))
			require.Eventually(t, is("four"), 2*time.Minute, time.Millisecond)
			require.Equal(t, component.HealthTypeHealthy, r.CurrentHealth().Health)
		})
	}
}

func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(a, []byte("a"), 0o600))
	require.NoError(t, os.WriteFile(b, []byte("b"), 0o600))
	r := start(t, arguments(a, DetectorFSNotify, time.Hour))
	args := arguments(b, DetectorPoll, time.Hour)
	args.IsSecret = true
	require.NoError(t, r.Update(args))
	require.Equal(t, "b", r.last().Content.Value)
	require.True(t, r.last().Content.IsSecret)

	require.ErrorContains(t, r.Update(arguments(dir+"/none", DetectorPoll, time.Hour)), "no such file")
	_, err := New(component.Options{OnStateChange: func(component.Exports) {}},
		arguments(dir+"/none", DetectorPoll, time.Hour))
	require.ErrorContains(t, err, "no such file")
}

func TestArguments(t *testing.T) {
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(`filename = "/a"`), &args))
	require.Equal(t, arguments("/a", DetectorFSNotify, time.Minute), args)
	require.ErrorContains(t, river.Unmarshal([]byte("filename = \"/a\"\ndetector = \"x\""), &args),
		`unrecognized detector "x"`)
	require.ErrorContains(t, river.Unmarshal([]byte("filename = \"/a\"\npoll_frequency = \"0s\""), &args),
		"must be greater than 0")
	require.ErrorContains(t, river.Unmarshal(nil, &args), "filename")
}

func TestFileIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(name, []byte("one"), 0o600))
	require.NoError(t, os.Truncate(name, MaxFile))
	content, err := readFile(name)
	require.NoError(t, err)
	require.Len(t, content, MaxFile)
	require.NoError(t, os.Truncate(name, 1<<40))
	_, err = readFile(name)
	require.EqualError(t, err, name+" has more than 32 MiB")
}
