package spool

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/integration/testkit/need"
)

func someOptions() Options {
	return Options{MaxBytes: 64 << 20, Sync: SyncNever, Interval: time.Hour, Logger: log.NewNopLogger()}
}

func open(t *testing.T, dir string, o Options) *Spool {
	t.Helper()
	s, err := Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// add appends a record that contains its own number.
func add(t *testing.T, s *Spool, text string) uint64 {
	t.Helper()
	seq := s.Reserve()
	_, err := s.Append(Record{Seq: seq, Taken: time.Unix(0, int64(seq)), Size: len(text), Data: []byte(text)})
	require.NoError(t, err)
	return seq
}

// take returns all that the spool hands out, and is not done with it.
func take(t *testing.T, s *Spool) []string {
	t.Helper()
	var texts []string
	for {
		r, lost, ok := s.Next()
		require.Zero(t, lost)
		if !ok {
			return texts
		}
		require.Equal(t, len(r.Data), r.Size)
		require.EqualValues(t, r.Seq, r.Taken.UnixNano())
		texts = append(texts, string(r.Data))
	}
}

func TestOrder(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "a", "b"), someOptions())
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint(i, strings.Repeat("x", i*i*300))) // some span pages of the log
		add(t, s, want[i])
	}
	records, size, disk := s.Usage()
	require.Equal(t, 20, records)
	require.Equal(t, len(strings.Join(want, "")), size)
	require.Greater(t, disk, int64(size))
	require.Equal(t, want, take(t, s))
	records, size, _ = s.Usage()
	require.Zero(t, records)
	require.Zero(t, size)
}

// Records that are done with do not return; the remaining ones do, in order.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, someOptions())
	var seqs []uint64
	for i := range 10 {
		seqs = append(seqs, add(t, s, fmt.Sprint(i)))
	}
	require.Len(t, take(t, s), 10)
	for _, i := range []int{0, 1, 4, 2, 8} { // not in order
		require.NoError(t, s.Done(seqs[i]))
	}
	require.NoError(t, s.Close())

	s = open(t, dir, someOptions())
	records, size, _ := s.Usage()
	require.Equal(t, []int{5, 5}, []int{records, size})
	next := add(t, s, "new")
	require.Greater(t, next, seqs[9], "places are not used again")
	require.Equal(t, []string{"3", "5", "6", "7", "9", "new"}, take(t, s))
	for _, seq := range []uint64{seqs[3], seqs[5], seqs[6], seqs[7], seqs[9], next} {
		require.NoError(t, s.Done(seq))
	}
	require.NoError(t, s.Close())
	s = open(t, dir, someOptions())
	require.Empty(t, take(t, s))
	require.Greater(t, s.Reserve(), next)
	files, err := segmentIndexes(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Len(t, files, 1, "no old file is kept")
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, someOptions())
	_, err := Open(dir, someOptions())
	require.ErrorContains(t, err, "which another process or component may hold")
	require.NoError(t, s.Close())
	open(t, dir, someOptions())
}

// copyDir copies the state of the disk as if the process were killed now.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// newestFile is the last segment that holds anything.
func newestFile(t *testing.T, dir string) (name string, content []byte) {
	t.Helper()
	logDir := filepath.Join(dir, "log")
	indexes, err := segmentIndexes(logDir)
	require.NoError(t, err)
	name = wlog.SegmentName(logDir, indexes[len(indexes)-1])
	content, err = os.ReadFile(name)
	require.NoError(t, err)
	return name, content
}

// A kill may leave any part of the last write: complete records stay, the remainder is cut off with a message, and the
// spool continues.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, someOptions())
	var want []string
	var ends []int // of the records in the file
	for i := range 6 {
		want = append(want, fmt.Sprint(i, strings.Repeat("y", i*7)))
		add(t, s, want[i])
		_, content := newestFile(t, dir)
		ends = append(ends, len(content))
	}
	_, whole := newestFile(t, dir)
	for cut := range len(whole) + 1 {
		torn := copyDir(t, dir)
		name, _ := newestFile(t, torn)
		require.NoError(t, os.Truncate(name, int64(cut)))
		intact := 0
		for intact < len(ends) && ends[intact] <= cut {
			intact++
		}
		onBoundary := cut == 0 || intact > 0 && ends[intact-1] == cut

		var out bytes.Buffer
		o := someOptions()
		o.Logger = log.NewLogfmtLogger(&out)
		r, err := Open(torn, o)
		require.NoError(t, err, cut)
		require.Equal(t, !onBoundary, strings.Contains(out.String(), "cut off the end"), "%d: %s", cut, out.String())
		add(t, r, "after")
		require.Equal(t, append(want[:intact:intact], "after"), take(t, r), cut)
		require.NoError(t, r.Close())
	}
}

// A file that is damaged while it is in use is given up and counted.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, someOptions())
	for i := range 5 {
		add(t, s, fmt.Sprint(i, strings.Repeat("z", 10_000)))
	}
	name, _ := newestFile(t, dir)
	require.NoError(t, os.Truncate(name, 25_000))
	var got, lost int
	for {
		_, gone, ok := s.Next()
		lost += gone.Records
		if !ok {
			break
		}
		got++
	}
	require.Equal(t, []int{2, 3}, []int{got, lost})
}

// The cursor has a whole copy whichever of the two is damaged.
func TestDamagedCursor(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, someOptions())
	for i := range 6 {
		add(t, s, fmt.Sprint(i))
	}
	for range 3 {
		r, _, _ := s.Next()
		require.NoError(t, s.Done(r.Seq))
	}
	for at := 0; at < 2*slotBytes; at += 1 + at/20 { // every byte of the numbers, then fewer
		damaged := copyDir(t, dir)
		name := filepath.Join(damaged, "cursor")
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		content[at] ^= 0x81
		require.NoError(t, os.WriteFile(name, content, 0o600))
		r, err := Open(damaged, someOptions())
		require.NoError(t, err)
		got := take(t, r)
		require.Contains(t, []int{3, 4}, len(got), "at most one is handed out again")
		require.Equal(t, "5", got[len(got)-1])
		require.NoError(t, r.Close())
	}
	damaged := copyDir(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "cursor"), bytes.Repeat([]byte{7}, 2*slotBytes), 0o600))
	var out bytes.Buffer
	o := someOptions()
	o.Logger = log.NewLogfmtLogger(&out)
	r := open(t, damaged, o)
	require.Len(t, take(t, r), 6)
	require.Contains(t, out.String(), "may be sent again")
}

// A spool that is full gives up its oldest records, and the disk space with them.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	o := someOptions()
	o.MaxBytes = 1 << 20
	s := open(t, dir, o)
	lost, bytesLost := 0, 0
	const count, size = 300, 10_000
	for i := range count {
		text := fmt.Sprintf("%0*d", size, i)
		gone, err := s.Append(Record{Seq: s.Reserve(), Size: size, Data: []byte(text)})
		require.NoError(t, err)
		lost, bytesLost = lost+gone.Records, bytesLost+gone.Bytes
	}
	require.Equal(t, lost*size, bytesLost)
	records, size2, disk := s.Usage()
	require.Equal(t, count-lost, records)
	require.Equal(t, records*size, size2)
	require.LessOrEqual(t, disk, o.MaxBytes)
	require.Greater(t, disk, o.MaxBytes*8/10, "not more than need be is given up")
	var onDisk int64
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "log"), func(name string, d fs.DirEntry, err error) error {
		if info, err := os.Stat(name); err == nil && !d.IsDir() {
			onDisk += info.Size()
		}
		return err
	}))
	require.LessOrEqual(t, onDisk, o.MaxBytes)
	r, _, ok := s.Next()
	require.True(t, ok)
	require.Equal(t, fmt.Sprintf("%0*d", size, lost), string(r.Data), "the oldest that is left")

	_, err := s.Append(Record{Seq: s.Reserve(), Data: make([]byte, o.MaxBytes)})
	require.ErrorIs(t, err, ErrTooBig)
	s.Configure(64<<20, SyncAlways, time.Second)
	add(t, s, strings.Repeat("q", 2<<20))
	for { // the window bounds the records handed out at a time
		r, _, ok := s.Next()
		if !ok {
			break
		}
		require.NoError(t, s.Done(r.Seq))
	}
	_, _, disk = s.Usage()
	require.Less(t, disk, int64(5<<20), "what is done with goes")
}

func TestWindow(t *testing.T) {
	s := open(t, t.TempDir(), someOptions())
	var seqs []uint64
	for range Window + 10 {
		seqs = append(seqs, add(t, s, "x"))
	}
	require.Len(t, take(t, s), Window)
	for _, seq := range seqs[1:Window] { // all but the oldest
		require.NoError(t, s.Done(seq))
	}
	require.Empty(t, take(t, s), "the oldest holds the window")
	require.NoError(t, s.Done(seqs[0]))
	require.Len(t, take(t, s), 10)
}

// A full disk only causes an error; a record that could not be written is handed out once, even if its write succeeded
// in the end.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=400k"); err != nil {
		need.Missing(t, "no small tmpfs can be mounted: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 100_000), 0o600))

	s := open(t, filepath.Join(dir, "spool"), someOptions())
	defer s.Close()
	var want []string
	var failed []Record
	for i := range 12 {
		text := fmt.Sprint(i, strings.Repeat("d", 30_000))
		want = append(want, text)
		r := Record{Seq: s.Reserve(), Taken: time.Unix(0, int64(i+1)), Size: len(text), Data: []byte(text)}
		if len(failed) == 0 {
			if _, err := s.Append(r); err == nil {
				continue
			} else {
				require.ErrorIs(t, err, unix.ENOSPC)
			}
		}
		failed = append(failed, r)
	}
	require.NotEmpty(t, failed)
	for range 3 {
		_, err := s.Append(failed[0])
		require.ErrorIs(t, err, unix.ENOSPC)
	}
	r, _, ok := s.Next()
	require.True(t, ok, "reading goes on")
	require.Equal(t, want[0], string(r.Data))
	require.NoError(t, s.Done(r.Seq), "and so does the cursor")

	require.NoError(t, os.Remove(ballast))
	for i, r := range failed {
		for {
			_, err := s.Append(r)
			if err == nil {
				break
			}
			// The rest fits once the first have gone.
			require.ErrorIs(t, err, unix.ENOSPC, i)
			next, _, ok := s.Next()
			require.True(t, ok)
			require.Equal(t, want[next.Seq-1], string(next.Data))
			require.NoError(t, s.Done(next.Seq))
		}
	}
	killed := copyDir(t, filepath.Join(dir, "spool"))
	rest := take(t, s)
	require.Equal(t, want[len(want)-len(rest):], rest)
	require.Equal(t, rest, take(t, open(t, killed, someOptions())), "a restart finds the same")
}

// Random use agrees with a simple model over restarts, clean ones and kills: what
// was appended is handed out in order until it is done with, and never after.
func TestRandomUse(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		s := open(t, dir, someOptions())
		var waiting []string          // not done with, in order
		handed := map[string]uint64{} // handed out since the last start
		var inOrder []string          // in the order they were handed out
		number := 0
		for range 600 {
			switch n := random.IntN(100); {
			case n < 45:
				text := fmt.Sprint(number, ":", strings.Repeat("r", random.IntN(3000)*random.IntN(20)))
				number++
				add(t, s, text)
				waiting = append(waiting, text)
			case n < 70:
				r, lost, ok := s.Next()
				require.Zero(t, lost)
				if ok {
					require.NotContains(t, handed, string(r.Data))
					handed[string(r.Data)] = r.Seq
					inOrder = append(inOrder, string(r.Data))
				}
			case n < 97:
				if len(inOrder) == 0 {
					continue
				}
				i := random.IntN(len(inOrder))
				text := inOrder[i]
				require.NoError(t, s.Done(handed[text]))
				inOrder = append(inOrder[:i], inOrder[i+1:]...)
				for k, w := range waiting {
					if w == text {
						waiting = append(waiting[:k:k], waiting[k+1:]...)
						break
					}
				}
			default:
				old := s
				if random.IntN(2) == 0 {
					dir = copyDir(t, dir) // killed
				} else {
					require.NoError(t, s.Close())
				}
				s = open(t, dir, someOptions())
				old.Close()
				handed, inOrder = map[string]uint64{}, nil
			}
		}
		require.NoError(t, s.Close())
		s = open(t, dir, someOptions())
		for i := 0; i < len(waiting); {
			r, _, ok := s.Next()
			require.True(t, ok)
			require.Equal(t, waiting[i], string(r.Data), "seed %d", seed)
			require.NoError(t, s.Done(r.Seq))
			i++
		}
		require.Empty(t, take(t, s))
	}
}

func TestConcurrentUse(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncInterval, SyncAlways, SyncNever} {
		o := someOptions()
		o.Sync, o.Interval = policy, time.Millisecond
		s := open(t, t.TempDir(), o)
		var wg sync.WaitGroup
		var writing sync.Mutex // places are appended in order
		const writers, each = 4, 50
		for range writers {
			wg.Go(func() {
				for range each {
					writing.Lock()
					if _, err := s.Append(Record{Seq: s.Reserve(), Data: make([]byte, 100)}); err != nil {
						t.Error(err)
					}
					writing.Unlock()
				}
			})
		}
		var mu sync.Mutex
		done := 0
		for range 3 {
			wg.Go(func() {
				for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
					mu.Lock()
					finished := done == writers*each
					mu.Unlock()
					if finished {
						return
					}
					r, _, ok := s.Next()
					if !ok {
						time.Sleep(time.Millisecond)
						continue
					}
					if err := s.Done(r.Seq); err != nil {
						t.Error(err)
					}
					mu.Lock()
					done++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Equal(t, writers*each, done)
		require.NoError(t, s.Close())
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(Record{Seq: 1, Taken: time.Unix(1, 2), Size: 3, Data: []byte("abc")}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err == nil && !bytes.Equal(encode(r), b) {
			t.Errorf("%x is read as %v", b, r)
		}
	})
}
