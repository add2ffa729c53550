package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBurst: memory is given back once after a burst of allocations, and neither
// while it lasts nor because of what is allocated all the time.
func TestBurst(t *testing.T) {
	var b burst
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
	require.False(t, allocate(0), "given back")
	require.False(t, allocate(5))
	require.False(t, allocate(0), "not worth it")

	before := readHeap()
	kept := make([]byte, 8<<20)
	after := readHeap()
	require.GreaterOrEqual(t, after.allocated-before.allocated, uint64(len(kept)))
	require.NotZero(t, after.live)
}

func TestDropPages(t *testing.T) {
	own, err := ownPages()
	require.NoError(t, err)
	require.NotEmpty(t, own)
	require.NoError(t, dropPages(own))
	_, err = componentRegistry() // code and constants are there again when they are needed
	require.NoError(t, err)
}
