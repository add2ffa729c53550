package compare

import (
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestSetPer checks that invalid numbers of units of work are refused.
func TestSetPer(t *testing.T) {
	for text, want := range map[string][]float64{
		"second": nil, "run": nil, "cpu": nil, "count=1000": {1000}, "count=1e3,2.5": {1000, 2.5}, "count=1,2,3": {1, 2, 3},
	} {
		o := DefaultOptions()
		require.NoError(t, o.SetPer(text), text)
		require.Equal(t, want, o.Counts, text)
		require.NoError(t, o.Validate(), text)
	}
	for text, want := range map[string]string{
		"count":          "per count needs the number of units of work",
		"count=":         `per "count=": "" is no number of units of work`,
		"count=many":     `"many" is no number of units of work`,
		"count=10,":      `"" is no number of units of work`,
		"count=0":        "the number of units of work must be above 0, got 0",
		"count=-4":       "above 0, got -4",
		"count=1,NaN":    "above 0, got NaN",
		"count=Inf":      "above 0, got +Inf",
		"count=1e999":    `"1e999" is no number of units of work`,
		"cpu=4":          `per "cpu=4": only count has a number`,
		"day":            `per "day" is unknown`,
		"":               `per "" is unknown`,
		"count=1000 ,20": `"1000 " is no number of units of work`,
	} {
		o := DefaultOptions()
		require.ErrorContains(t, o.SetPer(text), want, text)
	}
}

// TestPerCount checks that the cost of a unit of work does not depend on the number of units or on the duration, and
// that only a function that became slower has changed.
func TestPerCount(t *testing.T) {
	// A unit takes 2 samples in work, and 3 in other.
	of := func(units, work int64) *profile.Profile {
		return profileOf(units/100, map[string]int64{"work": units * work, "other": 3 * units})
	}
	compared := func(base, after []*profile.Profile, counts ...float64) (*Report, error) {
		o := DefaultOptions()
		o.Per, o.Counts = PerCount, counts
		return Profiles(base, after, o)
	}
	one := func(units, work int64) []*profile.Profile { return []*profile.Profile{of(units, work)} }

	r, err := compared(one(4000, 2), one(9000, 2), 4000, 9000)
	require.NoError(t, err)
	require.Empty(t, r.Changed)
	require.InDelta(t, 0.05, r.All.Base, 1e-9)
	require.InDelta(t, 0.05, r.All.New, 1e-9)
	require.Equal(t, []float64{4000, 9000}, []float64{r.Base.Count, r.New.Count})

	r, err = compared(one(4000, 2), one(9000, 4), 4000, 9000)
	require.NoError(t, err)
	require.Len(t, r.Changed, 1, "other costs what it did")
	require.Equal(t, "work", r.Changed[0].Name)
	require.InDelta(t, 0.02, r.Changed[0].Base, 1e-9)
	require.InDelta(t, 0.04, r.Changed[0].New, 1e-9)

	r, err = compared(one(4000, 2), one(9000, 2), 4000) // with one number for both sides, all functions cost more
	require.NoError(t, err)
	require.Len(t, r.Changed, 2)

	files := []*profile.Profile{of(4000, 2), of(2000, 2), of(3000, 2)}
	for _, counts := range [][]float64{{4000, 2000, 3000, 9000}, {3000, 9000}} {
		r, err = compared(files, one(9000, 2), counts...)
		require.NoError(t, err)
		require.Empty(t, r.Changed)
		require.InDelta(t, 0.05, r.All.Base, 1e-9)
		require.Equal(t, len(counts) == 4, *r.Spread == 0, "runs differ if each is taken to have done as much")
	}
	_, err = compared(files, one(9000, 2), 1, 2, 3)
	require.ErrorContains(t, err, "3 numbers of units of work do not fit 3 and 1 profiles: pass one for all profiles")

	flame := NewFlame(r, nil)
	require.NoError(t, flame.AddBase(files[0]))
	require.NoError(t, flame.AddNew(of(9000, 2)))
	require.Equal(t, 9000.0, flame.Tree().Diff.By)
}
