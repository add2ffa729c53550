package symbol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetTableBytes(t *testing.T) {
	s := New(Options{TableBytes: 100 << 10, CacheFrames: 1000})
	defer s.Close()
	for id := range uint32(4) {
		o := &Object{ID: id + 1}
		e := s.tables.entry(o, o)
		s.tables.loaded(e, o.ID, nil, Status{Bytes: 20 << 10})
	}
	for at := range uint64(600) {
		s.frames.putFrames(1, at, []Frame{{}})
	}
	require.Equal(t, Stats{Tables: 4, TableBytes: 4 * (20<<10 + entryOverhead), Frames: 600}, s.Stats())

	s.SetTableBytes(50 << 10)
	require.Equal(t, 2, s.Stats().Tables)
	require.LessOrEqual(t, s.Stats().Frames, 500)
	_, known := s.tables.status(&Object{ID: 4})
	require.True(t, known, "the newest stay")
	_, known = s.tables.status(&Object{ID: 1})
	require.False(t, known)

	s.SetTableBytes(1)
	require.Zero(t, s.Stats().Tables)
	s.SetTableBytes(0)
	require.Equal(t, 100<<10, s.tables.budget)
	require.Equal(t, 500, s.frames.half)
}
