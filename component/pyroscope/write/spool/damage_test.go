package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/stretchr/testify/require"
)

// stored is a record that a spool on disk holds, as the log's own reader finds it.
type stored struct {
	text     string
	segment  string // its file
	from, to int64  // where it is there
}

// layout lists the records of a spool, by the reader of tsdb/wlog, not ours.
func layout(t *testing.T, dir string) (all []stored) {
	t.Helper()
	logDir := filepath.Join(dir, "log")
	indexes, err := segmentIndexes(logDir)
	require.NoError(t, err)
	for _, index := range indexes {
		name := wlog.SegmentName(logDir, index)
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		at := int64(0)
		r := wlog.NewReader(bytes.NewReader(content))
		for r.Next() {
			all = append(all,
				stored{text: string(r.Record()[headerBytes:]), segment: filepath.Base(name), from: at, to: r.Offset()})
			at = r.Offset()
		}
		require.NoError(t, r.Err())
	}
	return all
}

// damages are what may happen to a file. Each returns the new content, nil for none.
var damages = map[string]func(*rand.Rand, []byte) []byte{
	"flip": func(random *rand.Rand, b []byte) []byte {
		for range 1 + random.IntN(4) {
			b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
		}
		return b
	},
	"zeros": func(random *rand.Rand, b []byte) []byte {
		from := random.IntN(len(b))
		clear(b[from:min(len(b), from+1+random.IntN(9000))])
		return b
	},
	"a sector of zeros": func(random *rand.Rand, b []byte) []byte {
		from := random.IntN(len(b)) / 512 * 512
		clear(b[from:min(len(b), from+512)])
		return b
	},
	"noise": func(random *rand.Rand, b []byte) []byte {
		from := random.IntN(len(b))
		for i := from; i < min(len(b), from+1+random.IntN(40_000)); i++ {
			b[i] = byte(random.Uint32())
		}
		return b
	},
	"cut":  func(random *rand.Rand, b []byte) []byte { return b[:random.IntN(len(b))] },
	"gone": func(*rand.Rand, []byte) []byte { return nil },
}

// Whatever happens to the files, after the process has closed the spool or was killed: each record that is
// not hit is handed out, once and in order, and each other record is counted, once.
func TestDamage(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(60) {
				damageOnce(t, rand.New(rand.NewPCG(seed, 1)), damage)
			}
		})
	}
}

func damageOnce(t *testing.T, random *rand.Rand, damage func(*rand.Rand, []byte) []byte) {
	dir := t.TempDir()
	s := open(t, dir, someOptions())
	s.opts.MaxBytes = 1 << 20 // segments of 64 KiB
	most := []int{100, 3000, 50_000}[random.IntN(3)]
	for i := range 1 + 300_000/most/2 {
		add(t, s, fmt.Sprint(i, strings.Repeat("z", random.IntN(most))))
		if random.IntN(3) == 0 {
			r, _, ok := s.Next()
			require.True(t, ok)
			require.NoError(t, s.Done(r.Seq))
		}
	}
	if random.IntN(2) == 0 {
		dir = copyDir(t, dir) // as a kill leaves it
	}
	require.NoError(t, s.Close())

	pending := map[string]bool{} // text -> whether it must arrive
	for _, text := range drain(t, copyDir(t, dir), 0) {
		pending[text] = true
	}
	records := layout(t, dir)
	logDir := filepath.Join(dir, "log")
	indexes, err := segmentIndexes(logDir)
	require.NoError(t, err)
	for range 1 + random.IntN(2) {
		path := wlog.SegmentName(logDir, indexes[random.IntN(len(indexes))])
		before, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || len(before) == 0 {
			continue
		}
		require.NoError(t, err)
		after := damage(random, bytes.Clone(before))
		if after == nil {
			require.NoError(t, os.Remove(path))
		} else {
			require.NoError(t, os.WriteFile(path, after, 0o600))
		}
		for _, r := range records {
			if r.segment == filepath.Base(path) &&
				(int(r.to) > len(after) || !bytes.Equal(before[r.from:r.to], after[r.from:r.to])) {
				if _, waits := pending[r.text]; waits {
					pending[r.text] = false
				}
			}
		}
	}

	got := drain(t, dir, len(pending))
	seen := map[string]bool{}
	last := -1
	for _, text := range got {
		_, waits := pending[text]
		require.True(t, waits, "handed out though it was done with, or never put in: %.20q", text)
		require.False(t, seen[text], "twice: %.20q", text)
		seen[text] = true
		var number int
		_, err := fmt.Sscan(strings.TrimRight(text, "z"), &number)
		require.NoError(t, err)
		require.Greater(t, number, last, "in order")
		last = number
	}
	for text, whole := range pending {
		require.True(t, seen[text] || !whole, "not hit, and not handed out: %.20q", text)
	}
	require.Equal(t, got, drain(t, dir, len(got)), "another start finds the same, and counts nothing again")
}

// drain opens a spool and returns the records it hands out, without marking them as done. Together with the lost
// records there must be want; if want is 0, no record may be lost.
func drain(t *testing.T, dir string, want int) []string {
	t.Helper()
	s, err := Open(dir, someOptions())
	require.NoError(t, err)
	var texts []string
	lost := s.Lost().Records
	for {
		if len(s.cursor.begun) > 0 {
			s.cursor.begun = nil // as if there were no Window
		}
		r, gone, ok := s.Next()
		lost += gone.Records
		if !ok {
			break
		}
		texts = append(texts, string(r.Data))
	}
	require.NoError(t, s.Close())
	if want == 0 {
		want = len(texts)
	}
	require.Equal(t, want, len(texts)+lost, "%d handed out, %d lost", len(texts), lost)
	return texts
}

// No content of a file makes the reader fail, or read indefinitely.
func FuzzReader(f *testing.F) {
	whole := []byte{partFull, 0, 1, 0, 0, 0, 0, 'x'}
	binary.BigEndian.PutUint32(whole[3:], crc32.Checksum([]byte("x"), castagnoli))
	f.Add(whole)
	f.Add(append(bytes.Repeat([]byte{partFirst}, pageBytes), whole...))
	f.Fuzz(func(t *testing.T, content []byte) {
		name := wlog.SegmentName(t.TempDir(), 0)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := newReader(filepath.Dir(name), &segment{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.file.Close()
		read := 0
		for {
			record, err := r.nextRecord()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if read += partHeaderBytes + len(record); read > len(content) {
				t.Fatalf("%d bytes read of %d", read, len(content))
			}
		}
	})
}
