package compare

import (
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/tree"
)

// TestFlame checks that builds with different names, build IDs, lines and addresses give one tree, with values for
// equal times.
func TestFlame(t *testing.T) {
	base := profileOf(40, map[string]int64{"work": 4000, "gone": 400, "shopd+0x1240": 2000})
	after := profileOf(20, map[string]int64{"work": 3000, "fresh": 100, "shopd+0x1260": 1000})
	after.Mapping[0].File, after.Mapping[0].BuildID = "/tmp/shopd.new", "c0ffee"
	for _, l := range after.Location {
		l.Line[0].Line, l.Line[0].Function.StartLine = 7, 5
	}
	r := changes(t, base, after, DefaultOptions())
	f := NewFlame(r, func(name string) string {
		if strings.Contains(name, "0x") {
			return name
		}
		return name + "()"
	})
	require.NoError(t, f.AddBase(base))
	require.NoError(t, f.AddNew(after))
	require.Equal(t, 6, f.Nodes()) // the root, main, and four functions
	shown := f.Tree()
	require.Equal(t, "second", shown.Diff.Per)

	type values struct{ was, is float64 }
	got, bounds := map[string]values{}, map[string]tree.Bound{}
	perSecond := float64(shown.Scale) / 1e9 / shown.Diff.By
	for i, name := range shown.Frames.Name {
		was := shown.Frames.BaseSelf[i]
		got[shown.Strings[name]] = values{float64(was) * perSecond, float64(shown.Frames.Self[i]-was) * perSecond}
		if at := shown.Diff.Functions[i]; at >= 0 {
			bounds[shown.Strings[name]] = shown.Diff.Changes[at]
		}
	}
	for name, want := range map[string]values{
		"main()": {0, 0}, "work()": {1, 1.5}, "gone()": {0.1, 0}, "fresh()": {0, 0.05}, tree.WithoutName: {0.5, 0.5},
	} {
		require.InDelta(t, want.was, got[name].was, 1e-6, name)
		require.InDelta(t, want.is, got[name].is, 1e-6, name)
	}
	require.True(t, bounds["work()"].Certain && bounds["gone()"].Certain && bounds["fresh()"].Certain, "%v", bounds)
	require.Nil(t, bounds["fresh()"].High)
	require.Equal(t, r.Changed[0].Low, bounds["work()"].Low)
	require.InDelta(t, 0.01/40, shown.Diff.BaseSample*perSecond, 1e-9) // a sample of 10 ms, per second
	require.InDelta(t, 0.01/20, shown.Diff.NewSample*perSecond, 1e-9)
	require.Zero(t, shown.Diff.BaseSpread)
}

// TestFlameSpread checks that the spread of runs is part of a node's variance.
func TestFlameSpread(t *testing.T) {
	list := func(counts ...int64) (out []*profile.Profile) {
		for _, n := range counts {
			out = append(out, profileOf(10, map[string]int64{"work": n}))
		}
		return out
	}
	base, after := list(10_000, 12_000, 14_000), list(11_000, 13_000)
	r, err := Profiles(base, after, DefaultOptions())
	require.NoError(t, err)
	f := NewFlame(r, nil)
	for _, p := range base {
		require.NoError(t, f.AddBase(p))
	}
	for _, p := range after {
		require.NoError(t, f.AddNew(p))
	}
	d := f.Tree().Diff
	require.Greater(t, *r.Spread, 0.05)
	require.InDelta(t, *r.Spread**r.Spread/3, d.BaseSpread, 1e-12)
	require.InDelta(t, *r.Spread**r.Spread/2, d.NewSpread, 1e-12)
}
