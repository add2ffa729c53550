package footprint

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBurst checks that memory is released once after a burst of allocations, and not during the burst, because of a
// steady rate, or soon after the previous release.
func TestBurst(t *testing.T) {
	b := burst{looks: restSeconds}
	total := uint64(0)
	allocate := func(megabytes uint64) bool {
		total += megabytes << 20
		now := heap{allocated: total, live: 16 << 20}
		over := b.isOver(now)
		if over {
			b.reset(now)
		}
		return over
	}
	for range 20 {
		require.False(t, allocate(2), "all the time")
	}
	require.False(t, allocate(12), "a burst")
	require.False(t, allocate(8), "it lasts")
	require.True(t, allocate(2), "over")
	require.False(t, allocate(0), "released")
	require.False(t, allocate(5))
	require.False(t, allocate(0), "not worth it")
	require.False(t, allocate(12), "the next burst")
	require.False(t, allocate(1), "over, soon after the last")
	released := 0
	for range restSeconds {
		if allocate(0) {
			released++
		}
	}
	require.Equal(t, 1, released)

	before := readHeap()
	kept := make([]byte, 8<<20)
	runtime.GC() // live is from the last collection
	after := readHeap()
	require.GreaterOrEqual(t, after.allocated-before.allocated, uint64(len(kept)))
	require.NotZero(t, after.live)
}

// TestPercentOf checks that only SmallHeap leads to more collections.
func TestPercentOf(t *testing.T) {
	for _, c := range []struct {
		prefer Preference
		live   uint64
		want   int
	}{{LittleCPU, 10 << 20, 50}, {LittleCPU, 500 << 20, 50}, {SmallHeap, 10 << 20, 50}, {SmallHeap, 500 << 20, 20}} {
		require.Equal(t, c.want, c.prefer.percentOf(c.live), c)
	}
}
