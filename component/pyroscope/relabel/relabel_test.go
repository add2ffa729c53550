package relabel

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/grafana/river"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
)

func decode(t *testing.T, text string) Arguments {
	t.Helper()
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(text), &args))
	return args
}

const rules = `
	forward_to     = []
	max_cache_size = 2
	rule {
		source_labels = ["env"]
		regex         = "dev"
		action        = "drop"
	}
	rule {
		source_labels = ["env"]
		target_label  = "environment"
	}
	rule {
		regex  = "env"
		action = "labeldrop"
	}`

// receiver keeps the labels of the profiles it receives.
type receiver struct {
	mu  sync.Mutex
	got []string
}

func (r *receiver) Appender() pyroscope.Appender { return r }

func (r *receiver) Append(_ context.Context, l labels.Labels, _ []*pyroscope.RawSample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, l.String())
	return nil
}

func (r *receiver) AppendIngest(ctx context.Context, p *pyroscope.IncomingProfile) error {
	return r.Append(ctx, p.Labels, nil)
}

func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		out[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return out
}

func TestRelabel(t *testing.T) {
	r := &receiver{}
	args := decode(t, rules)
	args.ForwardTo = []pyroscope.Appendable{r}
	registry := prometheus.NewRegistry()
	var exported Exports
	c, err := New(component.Options{ID: "pyroscope.relabel.x", Registerer: registry,
		OnStateChange: func(e component.Exports) { exported = e.(Exports) }}, args)
	require.NoError(t, err)
	require.Len(t, exported.Rules, 3)
	send := func(pairs ...string) {
		t.Helper()
		require.NoError(t, exported.Receiver.Appender().Append(context.Background(), labels.FromStrings(pairs...), nil))
	}
	send("env", "prod")
	send("env", "prod")
	send("env", "dev")
	send("env", "dev")
	send()
	require.NoError(t,
		c.AppendIngest(context.Background(), &pyroscope.IncomingProfile{Labels: labels.FromStrings("env", "qa")}))
	require.Equal(t, []string{`{environment="prod"}`, `{environment="prod"}`, `{}`, `{environment="qa"}`}, r.got)
	got := values(t, registry)
	require.EqualValues(t, 6, got["pyroscope_relabel_profiles_processed"])
	require.EqualValues(t, 4, got["pyroscope_relabel_profiles_written"])
	require.EqualValues(t, 2, got["pyroscope_relabel_profiles_dropped"])
	require.EqualValues(t, 2, got["pyroscope_relabel_cache_hits"])
	require.EqualValues(t, 3, got["pyroscope_relabel_cache_misses"])
	require.EqualValues(t, 2, got["pyroscope_relabel_cache_size"], "bounded")

	args.Rules = nil
	require.NoError(t, c.Update(args))
	send("env", "dev")
	require.Equal(t, `{env="dev"}`, r.got[len(r.got)-1], "nothing remembered of other rules")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, c.Run(ctx))
	require.EqualError(t, c.Append(context.Background(), labels.FromStrings("a", "b"), nil),
		"pyroscope.relabel.x has exited")
}

func TestConcurrentUse(t *testing.T) {
	args := decode(t, rules)
	r := &receiver{}
	args.ForwardTo = []pyroscope.Appendable{r}
	c, err := New(component.Options{OnStateChange: func(component.Exports) {}}, args)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				if err := c.Append(context.Background(), labels.FromStrings("env", fmt.Sprint(i%5)), nil); err != nil {
					t.Error(err)
				}
				if i%50 == 0 {
					if err := c.Update(args); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, r.got, 800)
}

func TestArguments(t *testing.T) {
	require.Equal(t, 10_000, decode(t, "forward_to = []").MaxCacheSize)
	var args Arguments
	require.ErrorContains(t, river.Unmarshal([]byte("forward_to = []\nmax_cache_size = 0"), &args),
		"must be greater than 0")
}
