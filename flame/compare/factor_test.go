package compare

import (
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// shares returns the options of the command line.
func shares() Options {
	o := DefaultOptions()
	o.Per = PerCPU
	return o
}

// TestLoadOfNeighbours checks that a program with less CPU time has no changed functions, and that a function that grew
// by a fifth has changed regardless of the CPU time.
func TestLoadOfNeighbours(t *testing.T) {
	base := map[string]int64{"work": 20_000, "other": 60_000, "rest": 20_000}
	starved := map[string]int64{"work": 8_000, "other": 24_000, "rest": 8_000}
	r := changes(t, profileOf(30, starved), profileOf(30, base), shares())
	require.Empty(t, r.Changed, "all grew by one factor")
	require.InDelta(t, 2.5, r.Factor.New/r.Factor.Base, 1e-9)
	require.True(t, r.Factor.Low > 2.4 && *r.Factor.High < 2.6, "%v", r.Factor)

	slower := map[string]int64{"work": 9_600, "other": 24_000, "rest": 8_000}
	r = changes(t, profileOf(30, base), profileOf(30, slower), shares())
	require.Len(t, r.Changed, 1)
	require.Equal(t, "work", r.Changed[0].Name)
	require.Greater(t, r.Changed[0].Low, 1.05)
	require.Less(t, r.Factor.New, r.Factor.Base)
}

// TestNeeded checks that with Needed.Times as many profiles the bounds of the function are within 5 %.
func TestNeeded(t *testing.T) {
	some := func(n int) []*profile.Profile {
		var all []*profile.Profile
		for range n {
			all = append(all, profileOf(10, map[string]int64{"work": 700, "other": 300}))
		}
		return all
	}
	width := func(n int) float64 {
		r, err := Profiles(some(n), some(n), shares())
		require.NoError(t, err)
		for _, c := range r.Others {
			if c.Name == "work" {
				return max(*c.High, 1/c.Low)
			}
		}
		t.Fatalf("work has changed: %v", r.Changed)
		return 0
	}
	r, err := Profiles(some(1), some(1), shares())
	require.NoError(t, err)
	n := r.Needed
	require.Equal(t, "work", n.Name)
	require.InDelta(t, 0.7, n.Share, 1e-9)
	require.Greater(t, width(n.Times-1), 1+shownChange)
	require.LessOrEqual(t, width(n.Times), 1+shownChange)
}

// TestKindsDoNotCompare checks that CPU time and time off CPU are not compared, although both are seconds.
func TestKindsDoNotCompare(t *testing.T) {
	cpu, waits := profileOf(10, map[string]int64{"work": 100}), profileOf(10, map[string]int64{"work": 100})
	waits.SampleType = []*profile.ValueType{{Type: "offcpu", Unit: "nanoseconds"}}
	_, err := Profiles([]*profile.Profile{cpu}, []*profile.Profile{waits}, shares())
	require.ErrorContains(t, err, "the base profile is of cpu and the new profile of offcpu")
	_, err = Profiles([]*profile.Profile{cpu, waits}, []*profile.Profile{cpu}, shares())
	require.ErrorContains(t, err, "base profile: it is of cpu and of offcpu")
}
