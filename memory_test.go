package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeapBurst: memory is given back once after a burst of allocations, and not
// while it lasts.
func TestHeapBurst(t *testing.T) {
	const live = 40 << 20
	released := heap{allocated: 100 << 20, live: live}
	at := func(megabytes uint64) heap { return heap{allocated: released.allocated + megabytes<<20, live: live} }
	require.False(t, at(19).isOverAfter(released, at(19)), "not worth it")
	require.False(t, at(30).isOverAfter(released, at(28)), "it lasts")
	require.True(t, at(30).isOverAfter(released, at(30)))
	require.False(t, at(30).isOverAfter(at(30), at(30)), "it was given back")
	require.True(t, heap{allocated: 7 << 20}.isOverAfter(heap{}, heap{allocated: 7 << 20}))

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
