package spool

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
	"github.com/stretchr/testify/require"
)

// A segment is, byte for byte, what Prometheus' write-ahead log makes of the same records.
func TestSegmentsEqualPrometheus(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		theirs, ours := t.TempDir(), t.TempDir()
		log, err := wlog.New(nil, nil, theirs, compression.None)
		require.NoError(t, err)
		w, err := createSegment(ours, 0)
		require.NoError(t, err)
		var records [][]byte
		for range 40 {
			record := make([]byte, headerBytes+random.IntN(100_000))
			switch left := int(-w.size & (pageBytes - 1)); random.IntN(4) {
			case 0:
				record = record[:min(len(record), 30)]
			case 1: // up to the end of the page, or nearly: no room is left for another header
				if most := left - partHeaderBytes - random.IntN(9); most >= headerBytes {
					record = make([]byte, most)
				}
			}
			for i := range record {
				record[i] = byte(random.Uint32())
			}
			require.NoError(t, log.Log(record))
			require.NoError(t, w.append(record))
			records = append(records, record)
		}
		require.NoError(t, log.Close())
		require.NoError(t, w.fillPage())
		require.NoError(t, w.close())

		want, err := os.ReadFile(filepath.Join(theirs, "00000000"))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(ours, "00000000"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "seed %d", seed)
		require.Equal(t, int64(len(got)), w.size)
		require.Equal(t, records, readAll(t, theirs), "seed %d", seed)
	}
}

func readAll(t *testing.T, dir string) (records [][]byte) {
	t.Helper()
	r, err := newReader(dir, &segment{})
	require.NoError(t, err)
	defer r.file.Close()
	for {
		record, err := r.nextRecord()
		if errors.Is(err, io.EOF) {
			require.Zero(t, r.skipped)
			return records
		}
		require.NoError(t, err)
		records = append(records, bytes.Clone(record))
	}
}
