package tools

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/compare"
)

// TestDiffPerCount: a program that did more rounds has not become slower by what a round costs, and one whose rounds
// cost more has, although both did other numbers of rounds. What a round costs is known from the program's own clock.
func TestDiffPerCount(t *testing.T) {
	t.Parallel()
	old, slower := build(t, "shop", 100), build(t, "shop.new", 200)
	base, longer, after := recorded(t, old, 500), recorded(t, old, 900), recorded(t, slower, 700)
	per := func(one, other recording) (compare.Report, int) {
		return diff(t, "--per", fmt.Sprintf("count=%v,%v", one.rounds, other.rounds), one.file, other.file)
	}
	really := func(c *compare.Change, one, other recording) float64 {
		return other.aRound(c.Name) / one.aRound(c.Name)
	}

	r, code := diff(t, "--per", "run", base.file, longer.file)
	require.Equal(t, 1, code, "a run costs more")
	require.NotEmpty(t, r.Changed)
	for _, c := range r.Changed { // how many are certain depends on the samples that a busy machine loses
		require.Greater(t, c.Low, 1.0, "%+v", c)
	}

	r, code = per(base, longer)
	for _, c := range r.Changed {
		if ratio := really(&c, base, longer); c.Low > 1.03*ratio || c.High != nil && *c.High < ratio/1.03 {
			t.Errorf("%+v has changed; by the program's own clock a round takes %.3f times as long", c, ratio)
		}
	}
	require.Equal(t, len(r.Changed) > 0, code == 1)

	r, code = per(base, after)
	require.Equal(t, 1, code)
	at := slices.IndexFunc(r.Changed, func(c compare.Change) bool { return c.Name == "price" })
	require.GreaterOrEqual(t, at, 0, "%+v", r.Changed)
	c := r.Changed[at]
	ratio := really(&c, base, after)
	t.Logf("price %.3g, then %.3g s: %.2f to %.2f times as much; by its own clock %.2f", c.Base, c.New, c.Low, *c.High,
		ratio)
	if c.Low > 1.03*ratio || *c.High < ratio/1.03 {
		t.Errorf("price costs %.2f to %.2f times as much; by the program's own clock %.3f", c.Low, *c.High, ratio)
	}
	require.InEpsilon(t, base.aRound("price"), c.Base, 0.1)
}
