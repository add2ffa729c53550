package discovery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

// fakeArgs configure a discoverer that sends what the test gives it.
type fakeArgs struct {
	sends chan []*targetgroup.Group
	err   error
}

type fakeConfig struct {
	discovery.Config
	fakeArgs
}

func (c fakeConfig) NewDiscovererMetrics(prometheus.Registerer,
	discovery.RefreshMetricsInstantiator) discovery.DiscovererMetrics {
	return discovery.NewRefreshMetrics(prometheus.NewRegistry())
}

func (c fakeConfig) NewDiscoverer(o discovery.DiscovererOptions) (discovery.Discoverer, error) {
	return &fakeDiscoverer{c.sends, o.Logger}, c.err
}

type fakeDiscoverer struct {
	sends  chan []*targetgroup.Group
	logger *slog.Logger
}

func (d *fakeDiscoverer) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	for {
		select {
		case <-ctx.Done():
			up <- nil // as one that does not look at ctx while it sends
			return
		case groups := <-d.sends:
			if groups == nil {
				d.logger.Error("unable to refresh", "err", errors.New("no route"))
				continue
			}
			up <- groups
		}
	}
}

func convertFake(a fakeArgs) (discovery.Config, error) { return fakeConfig{fakeArgs: a}, nil }

type rig struct {
	*Component[fakeArgs]
	mu      sync.Mutex
	exports [][]Target
}

func (r *rig) last() []Target {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.exports) == 0 {
		return nil
	}
	return r.exports[len(r.exports)-1]
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.exports)
}

func newRig(t *testing.T, args fakeArgs, every time.Duration) *rig {
	r := &rig{}
	c, err := New(component.Options{
		ID: "discovery.fake.x", Logger: log.NewNopLogger(), Registerer: prometheus.NewRegistry(),
		OnStateChange: func(e component.Exports) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.exports = append(r.exports, e.(Exports).Targets)
		},
	}, args, convertFake)
	require.NoError(t, err)
	c.every = every
	r.Component = c
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return r
}

func group(source string, targets ...model.LabelSet) *targetgroup.Group {
	return &targetgroup.Group{Source: source, Labels: model.LabelSet{"group": model.LabelValue(source)}, Targets: targets}
}

const patience = 2 * time.Minute

func TestExports(t *testing.T) {
	sends := make(chan []*targetgroup.Group)
	r := newRig(t, fakeArgs{sends: sends}, time.Millisecond)
	require.Equal(t, component.HealthTypeUnknown, r.CurrentHealth().Health)
	sends <- []*targetgroup.Group{group("b", model.LabelSet{"x": "2"}, model.LabelSet{"x": "1", "group": "mine"}), nil,
		group("a", model.LabelSet{"x": "3"})}
	want := []Target{{"group": "a", "x": "3"}, {"group": "b", "x": "2"}, {"group": "mine", "x": "1"}}
	require.Eventually(t, func() bool { return len(r.last()) == 3 }, patience, time.Millisecond)
	require.Equal(t, want, r.last(), "sorted by source, and a target's labels win over its group's")
	require.Equal(t, component.HealthTypeHealthy, r.CurrentHealth().Health)

	sends <- []*targetgroup.Group{group("b")} // gone
	require.Eventually(t, func() bool { return len(r.last()) == 1 }, patience, time.Millisecond)
}

func TestThrottle(t *testing.T) {
	sends := make(chan []*targetgroup.Group)
	r := newRig(t, fakeArgs{sends: sends}, time.Hour)
	for range 100 {
		sends <- []*targetgroup.Group{group("a", model.LabelSet{"x": "1"})}
	}
	sends <- []*targetgroup.Group{group("a", model.LabelSet{"x": "1"})} // the 100th has been taken
	require.Equal(t, 1, r.count(), "the first at once, the others not within an hour")
}

func TestUpdateKeepsTargetsUntilThereAreNewOnes(t *testing.T) {
	first, second := make(chan []*targetgroup.Group), make(chan []*targetgroup.Group)
	r := newRig(t, fakeArgs{sends: first}, time.Hour)
	first <- []*targetgroup.Group{group("a", model.LabelSet{"x": "1"})}
	require.Eventually(t, func() bool { return r.count() == 1 }, patience, time.Millisecond)
	require.NoError(t, r.Update(fakeArgs{sends: second}))
	second <- []*targetgroup.Group{group("b", model.LabelSet{"x": "2"})} // blocks until the new discoverer runs
	require.Eventually(t, func() bool { return r.count() == 2 }, patience, time.Millisecond)
	require.Equal(t, []Target{{"group": "b", "x": "2"}}, r.last(), "the old discoverer's are gone")

	require.ErrorContains(t, r.Update(fakeArgs{err: errors.New("no cluster")}), "no cluster")
	require.Error(t, r.Update(1))
}

func TestFailureIsInHealth(t *testing.T) {
	sends := make(chan []*targetgroup.Group)
	r := newRig(t, fakeArgs{sends: sends}, time.Millisecond)
	sends <- nil
	require.Eventually(t, func() bool { return r.CurrentHealth().Health == component.HealthTypeUnhealthy }, patience,
		time.Millisecond)
	require.Equal(t, "unable to refresh: no route", r.CurrentHealth().Message)
	sends <- []*targetgroup.Group{group("a", model.LabelSet{"x": "1"})}
	require.Eventually(t, func() bool { return r.CurrentHealth().Health == component.HealthTypeHealthy }, patience,
		time.Millisecond)
}

func TestLogger(t *testing.T) {
	var got []string
	logger := newLogger(log.LoggerFunc(func(keyvals ...any) error {
		got = got[:0]
		for i := 0; i < len(keyvals); i += 2 {
			if s, ok := keyvals[i+1].(string); ok {
				got = append(got, keyvals[i].(string)+"="+s)
			}
		}
		return nil
	}), nil)
	logger.With("a", 1).WithGroup("g").Info("hello", "b", "two")
	require.Equal(t, []string{"a=1", "msg=hello", "g.b=two"}, filter(got))
}

func filter(lines []string) []string {
	var out []string
	for _, l := range lines {
		if len(l) < 6 || l[:6] != "level=" {
			out = append(out, l)
		}
	}
	return out
}
