package main

import (
	"math"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMedianInterval: the ranks match tables of the sign test, such as table A 7 in Conover's Practical Nonparametric
// Statistics.
func TestMedianInterval(t *testing.T) {
	for _, test := range []struct{ n, least, most int }{{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {12, 3, 10},
		{15, 4, 12}, {20, 6, 15}, {30, 10, 21}} {
		var values []float64
		for i := test.n; i > 0; i-- {
			values = append(values, float64(i)) // each is its rank
		}
		require.Equal(t, &interval{float64(test.least), float64(test.most)}, medianInterval(values), test.n)
	}
	for n := range 6 {
		require.Nil(t, medianInterval(make([]float64, n)), n)
	}
}

// TestInTurn: in as many rounds as there are conditions, each has had each place.
func TestInTurn(t *testing.T) {
	const n = 4
	for _, first := range []int{0, n, 2 * n} {
		for place := range n {
			var seen []int
			for round := range n {
				seen = append(seen, inTurn(first+round, place, n))
			}
			slices.Sort(seen)
			require.Equal(t, []int{0, 1, 2, 3}, seen)
		}
	}
	after := map[[2]int]bool{}
	for round := range 2 * n {
		after[[2]int{inTurn(round, 0, n), inTurn(round, 1, n)}] = true
	}
	require.Len(t, after, 2*n, "the order of neighbours changes")
}

// TestSlowdownLines: the second profiler makes each round a tenth slower, though
// rounds differ by far more than that.
func TestSlowdownLines(t *testing.T) {
	s := slowedDown{"deep", "x", map[string][]float64{}, map[string][]float64{}}
	for round := range 10 {
		seconds := math.Pow(1.5, float64(round%5))
		for condition, factor := range map[string]float64{alone: 1, control: 1, "headwater": 1.01, "peer": 1.1} {
			s.CPU[condition] = append(s.CPU[condition], seconds*factor)
			s.Wall[condition] = append(s.Wall[condition], seconds*factor*factor)
		}
	}
	b := &bench{profilers: []contender{{name: "headwater"}, {name: "peer"}}, slowed: []slowedDown{s}}
	lines := b.slowdownLines()
	require.Len(t, lines, 2)
	require.Equal(t, "slowdown cpu deep", lines[0].Key)
	require.InDelta(t, 1, *lines[0].Ours, 1e-9)
	require.InDelta(t, 10, *lines[0].Peer, 1e-9)
	require.InDelta(t, 10, lines[0].Intervals[1].Least, 1e-9)
	require.InDelta(t, 10, lines[0].Intervals[1].Most, 1e-9)
	require.Zero(t, lines[0].ControlInterval.Most)
	require.InDelta(t, 21, *lines[1].Peer, 1e-9)
}

// TestFixedWork: the CPU time of grandchildren counts, and time asleep does not.
func TestFixedWork(t *testing.T) {
	w := fixedWork{commands: func() []*exec.Cmd {
		return []*exec.Cmd{
			exec.Command("sh", "-c", `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true`),
			exec.Command("sleep", "0.2"),
		}
	}}
	e, err := w.runOnce()
	require.NoError(t, err)
	require.Greater(t, e.cpu, 0.02)
	require.GreaterOrEqual(t, e.wall, (200 * time.Millisecond).Seconds())

	w.commands = func() []*exec.Cmd { return []*exec.Cmd{exec.Command("false")} }
	_, err = w.runOnce()
	require.ErrorContains(t, err, "exit status 1")
}
