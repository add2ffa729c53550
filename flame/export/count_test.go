package export

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
)

// TestSamplesAreCounted checks that a profile of waits of different lengths has the number of waits, and that its
// timeline has their whole time.
func TestSamplesAreCounted(t *testing.T) {
	b := pprof.NewBuilder(pprof.Options{Kind: kind.OffCPU, Count: true, Period: int64(10 * time.Millisecond)})
	frame := func(name string) []*pprof.Location { return []*pprof.Location{{Lines: []pprof.Line{{Function: name}}}} }
	labels := []pprof.Label{{Key: "thread_id", Text: "7"}, {Key: "pid", Text: "7"}}
	second := time.Second.Nanoseconds()
	long := pprof.Weight{Value: 400*second + 1, Samples: 3, Largest: 390 * second}
	b.AddAt([]int64{5, 6, 7}, frame("long"), long, labels)
	b.AddAt([]int64{8}, frame("short"), pprof.Weight{Value: 55*second - 1, Samples: 1, Largest: 55*second - 1},
		labels)
	p := b.Profile()
	require.NoError(t, p.CheckValid())

	var text, folded bytes.Buffer
	require.NoError(t, writeHead(&text, p))
	require.Contains(t, text.String(), "455.00 s, 4 samples")
	require.NoError(t, Folded(&folded, p))
	require.Equal(t, " (7);long 400000000001\n (7);short 54999999999\n", folded.String())

	s, err := newStacks(p)
	require.NoError(t, err)
	var sum int64
	moments := 0
	for _, track := range s.tracks() {
		for _, m := range track.moments {
			sum += m.value
			moments++
		}
	}
	require.Equal(t, 455*second, sum)
	require.Equal(t, 4, moments)
	stacks, _, period, err := Stacks(p)
	require.NoError(t, err)
	require.Zero(t, period, "each sample has a value of its own")
	require.Equal(t, int64(4), stacks[0].Samples+stacks[1].Samples)

	without := pprof.WithoutCount(p)
	require.NoError(t, without.CheckValid())
	require.Len(t, without.SampleType, 1)
	require.Len(t, p.SampleType, 2)
}
