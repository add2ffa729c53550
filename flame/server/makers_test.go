package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMakersAreUsedAgain: a maker is kept for the next answer, but not one that may have frames of long ago.
func TestMakersAreUsedAgain(t *testing.T) {
	var m makers
	first := m.takeMaker()
	require.NotSame(t, first, m.takeMaker(), "it is in use")
	m.giveBack(first)
	require.Same(t, first, m.takeMaker())

	first.made = first.made.Add(-2 * maxMakerAge)
	m.giveBack(first)
	second := m.takeMaker()
	require.NotSame(t, first, second)
	m.giveBack(second)
	m.expire(time.Now())
	require.Same(t, second, m.takeMaker())
	m.giveBack(second)
	m.expire(time.Now().Add(2 * maxMakerIdle))
	require.NotSame(t, second, m.takeMaker())
}
