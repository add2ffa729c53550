package export

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

// equal returns the Amount of n samples with a value of one period each.
func equal(samples, period int64) Amount {
	n, each := float64(samples), float64(period)
	return Amount{Value: n * each, Samples: n, Squares: n * each * each}
}

// functionOf returns a Function with samples of one period each; self samples end in it.
func functionOf(name, binary string, self, total, period int64) Function {
	return Function{name, binary, self * period, total * period, equal(self, period), equal(total, period)}
}

// TestFunctionsOnce checks that a function counts once for each sample that contains it, and that its places count as
// one function.
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
		return functionOf(name, binary, self, total, m.Period)
	}
	require.Equal(t, []Function{
		of("walk", "a", 5, 5), of("[unknown]", "", 4, 4), of("leaf", "a", 2, 7), of("leaf", "b", 1, 1),
		of("server", "", 0, 8), of("main", "a", 0, 7), of("main", "b", 0, 1),
	}, found)
}

// TestFunctionsOfTwoPaths checks that a file that two processes see under two paths is one file, and that two files
// with the same path are two.
func TestFunctionsOfTwoPaths(t *testing.T) {
	m := newMaker()
	m.sample(5, ":server", "/lib/x.so:work")
	m.sample(2, ":server", "/usr/lib/x.so:work")
	m.sample(1, ":server", "/other/x.so:work")
	for _, of := range m.Mapping {
		switch of.File {
		case "/lib/x.so", "/usr/lib/x.so":
			of.BuildID = "aa"
		case "/other/x.so":
			of.BuildID = "bb"
		}
	}
	found, _, err := Functions(m.Profile)
	require.NoError(t, err)
	require.Equal(t, []Function{
		functionOf("work", "/lib/x.so", 7, 7, m.Period),
		functionOf("work", "/other/x.so", 1, 1, m.Period),
		functionOf("server", "", 0, 8, m.Period),
	}, found)
}

// TestTreeOfDeepStacks has a recursion of 100,000 calls next to another stack. The text must not grow with the square
// of the depth, and must show how much it omits.
func TestTreeOfDeepStacks(t *testing.T) {
	m := newMaker()
	deep := []string{":server", "a:main"}
	for i := range 100_000 {
		deep = append(deep, fmt.Sprintf("a:f%d", i%7))
	}
	m.sample(6, deep...)
	m.sample(4, ":server", "a:main", "a:other", "a:leaf")
	var out bytes.Buffer
	require.NoError(t, Tree(&out, m.Profile))
	require.Less(t, out.Len(), 5<<20)
	require.Contains(t, out.String(), "(1000) f")
	shown := int64(0) // tenths of percents, in lines that are not callers
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.Contains(line, " functions are left out]") || strings.HasSuffix(line, " leaf") {
			var percent float64
			_, err := fmt.Sscan(line, &percent)
			require.NoError(t, err)
			shown += int64(10 * percent)
		}
	}
	require.EqualValues(t, 1000, shown, "what is left out is said to be")
}
