package pprof

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/kind"
)

// TestLargest checks that a stack of several waits has the length of the longest one, even if they are added one by
// one, and that samples with the period as their value do not have it.
func TestLargest(t *testing.T) {
	stack := func(name string) []*Location { return []*Location{{Lines: []Line{{Function: name}}}} }
	made := func(k kind.Kind, count bool) (largest map[string][]int64) {
		b := NewBuilder(Options{Kind: k, Count: count, Period: 10})
		b.AddAt([]int64{1, 2}, stack("two"), Weight{Value: 20, Samples: 2, Largest: 10}, nil)
		b.AddAt(nil, stack("one"), Weight{Value: 70, Samples: 1, Largest: 70}, nil)
		b.AddAt(nil, stack("more"), Weight{Value: 500, Samples: 3, Largest: 300}, nil)
		b.AddAt(nil, stack("more"), Weight{Value: 400, Samples: 1, Largest: 400}, nil)
		b.AddAt(nil, stack("more"), Weight{Value: 20, Samples: 2, Largest: 15}, nil)
		p := b.Profile()
		require.NoError(t, p.CheckValid())
		largest = map[string][]int64{}
		for _, s := range p.Sample {
			largest[s.Location[0].Line[0].Function.Name] = s.NumLabel[Largest]
			if len(s.NumLabel[Largest]) > 0 {
				require.Equal(t, []string{"nanoseconds"}, s.NumUnit[Largest])
			}
		}
		return largest
	}
	require.Equal(t, map[string][]int64{"two": {10}, "one": nil, "more": {400}}, made(kind.OffCPU, true))
	require.Equal(t, map[string][]int64{"two": nil, "one": nil, "more": {400}}, made(kind.CPU, true))
	require.Equal(t, map[string][]int64{"two": nil, "one": nil, "more": nil}, made(kind.OffCPU, false))
}
