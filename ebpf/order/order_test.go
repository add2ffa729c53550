package order

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStable(t *testing.T) {
	type row struct{ key, place int }
	byKey := func(a, b row) int { return cmp.Compare(a.key, b.key) }
	random := rand.New(rand.NewPCG(1, 1))
	for n := range 100 {
		got := make([]row, n)
		for i := range got {
			got[i] = row{random.IntN(1 + n/3), i}
		}
		want := slices.Clone(got)
		slices.SortStableFunc(want, byKey)
		Stable(got, byKey)
		require.Equal(t, want, got)
	}
}
