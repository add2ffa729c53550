package export

import (
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// equal is what samples have that stand for one period each.
func equal(samples, period int64) Amount {
	n, each := float64(samples), float64(period)
	return Amount{Value: n * each, Samples: n, Squares: n * each * each}
}

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
	of := func(name, binary string, self, total int64) Function {
		return Function{name, binary, self * m.Period, total * m.Period, equal(self, m.Period), equal(total, m.Period)}
	}
	require.Equal(t, []Function{
		of("walk", "a", 5, 5), of("[unknown]", "", 4, 4), of("leaf", "a", 2, 7), of("leaf", "b", 1, 1),
		of("server", "", 0, 8), of("main", "a", 0, 7), of("main", "b", 0, 1),
	}, found)
}
