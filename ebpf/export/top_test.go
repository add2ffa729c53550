package export

import (
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// TestFunctionsOnce: a function counts once for each sample that has it, however often it is there, and a function of
// two places is one.
func TestFunctionsOnce(t *testing.T) {
	m := newMaker()
	m.sample(5, ":server", "a:main", "a:walk", "a:walk", "a:leaf|walk")
	m.sample(2, ":server", "a:main", "a:leaf")
	m.sample(1, ":server", "b:main", "b:leaf")
	for _, n := range []int64{3, 1} { // without frames
		m.Sample = append(m.Sample, &profile.Sample{Value: []int64{n * m.Period}})
	}
	found, total, err := Functions(m.Profile)
	require.NoError(t, err)
	require.Equal(t, 12*m.Period, total)
	ms := func(n int64) int64 { return n * m.Period }
	require.Equal(t, []Function{
		{"walk", "a", ms(5), ms(5)},
		{"[unknown]", "", ms(4), ms(4)},
		{"leaf", "a", ms(2), ms(7)},
		{"leaf", "b", ms(1), ms(1)},
		{"server", "", 0, ms(8)},
		{"main", "a", 0, ms(7)},
		{"main", "b", 0, ms(1)},
	}, found)
}
