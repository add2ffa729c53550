package pprof

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompress checks that another reader can read the output of concurrent calls, even after a failed call, and that
// returned bytes do not change.
func TestCompress(t *testing.T) {
	var running sync.WaitGroup
	var returned [8][]byte
	for i := range returned {
		running.Go(func() {
			if _, err := Compress(func(w io.Writer) error {
				w.Write([]byte("half"))
				return errors.New("full")
			}); err == nil {
				t.Error("no error")
			}
			var err error
			returned[i], err = Compress(func(w io.Writer) error {
				_, err := w.Write(bytes.Repeat([]byte{byte(i), 'x'}, 1000*i))
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	for i, data := range returned {
		r, err := gzip.NewReader(bytes.NewReader(data))
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{byte(i), 'x'}, 1000*i), text)
	}
}

// TestCompressKeepsLittle checks that the memory of a large output is not kept.
func TestCompressKeepsLittle(t *testing.T) {
	noise := make([]byte, 4*maxKeptOut)
	state := uint32(1)
	for i := range noise {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	for _, size := range []int{len(noise), 1} {
		_, err := Compress(func(w io.Writer) error {
			_, err := w.Write(noise[:size])
			return err
		})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, compressor.out.Cap(), maxKeptOut)
}
