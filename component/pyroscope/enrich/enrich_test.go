package enrich

import (
	"context"
	"testing"

	"github.com/grafana/river"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery"
	"github.com/headwater/headwater/component/pyroscope"
)

// receiver keeps the labels of the profiles it receives.
type receiver struct{ got []labels.Labels }

func (r *receiver) Appender() pyroscope.Appender { return r }

func (r *receiver) Append(_ context.Context, l labels.Labels, _ []*pyroscope.RawSample) error {
	r.got = append(r.got, l)
	return nil
}

func (r *receiver) AppendIngest(_ context.Context, p *pyroscope.IncomingProfile) error {
	r.got = append(r.got, p.Labels)
	return nil
}

func TestEnrich(t *testing.T) {
	r := &receiver{}
	var exported Exports
	args := Arguments{
		Targets:          []discovery.Target{{"host": "a", "zone": "z", "env": "prod"}, {"zone": "nowhere"}},
		TargetMatchLabel: "host", ForwardTo: []pyroscope.Appendable{r},
	}
	c := New(component.Options{OnStateChange: func(e component.Exports) { exported = e.(Exports) }}, args)
	send := func(pairs ...string) labels.Labels {
		require.NoError(t, exported.Receiver.Appender().Append(context.Background(), labels.FromStrings(pairs...), nil))
		return r.got[len(r.got)-1]
	}
	require.Equal(t, labels.FromStrings("host", "a", "env", "prod", "zone", "z"), send("host", "a", "env", "dev"))
	require.Equal(t, labels.FromStrings("host", "b"), send("host", "b"))
	require.Equal(t, labels.FromStrings("x", "y"), send("x", "y"))

	args.ProfilesMatchLabel, args.LabelsToCopy = "node", []string{"zone", "missing"}
	require.NoError(t, c.Update(args))
	require.Equal(t, labels.FromStrings("node", "a", "zone", "z"), send("node", "a"))
	require.Equal(t, labels.FromStrings("host", "a"), send("host", "a"))

	require.NoError(t,
		c.AppendIngest(context.Background(), &pyroscope.IncomingProfile{Labels: labels.FromStrings("node", "a")}))
	require.Equal(t, labels.FromStrings("node", "a", "zone", "z"), r.got[len(r.got)-1])
	require.Error(t, c.Update(1))
}

func TestArguments(t *testing.T) {
	var args Arguments
	require.NoError(t,
		river.Unmarshal([]byte("targets = [{\"a\" = \"b\"}]\ntarget_match_label = \"a\"\nforward_to = []"), &args))
	require.ErrorContains(t, river.Unmarshal([]byte("targets = []\nforward_to = []"), &args), "target_match_label")
}
