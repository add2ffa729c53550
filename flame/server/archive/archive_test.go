package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// about is what tests say of a profile.
type about struct{ Name string }

// logged collects which files were left out.
type logged struct{ files []string }

func (l *logged) damaged(path string, _ error) { l.files = append(l.files, filepath.Base(path)) }

func open(t testing.TB, dir string, maxBytes int64) (*Archive[about], *logged) {
	t.Helper()
	var l logged
	a, err := Open[about](dir, maxBytes, l.damaged)
	require.NoError(t, err)
	return a, &l
}

// write keeps a round of two profiles that ends at end.
func write(t testing.TB, a *Archive[about], end int64, data string) Round {
	t.Helper()
	r := Round{end - 15, end}
	require.NoError(t, a.Write(r, []Profile[about]{{about{"first"}, []byte(data)}, {about{"second"}, []byte("2" + data)}}))
	return r
}

// read returns the data of a round's profiles by name.
func read(t testing.TB, a *Archive[about], r Round) map[string]string {
	t.Helper()
	stored, err := a.Read(r)
	require.NoError(t, err)
	out := map[string]string{}
	for _, s := range stored {
		data, err := s.Data()
		require.NoError(t, err)
		require.EqualValues(t, len(data), s.Size)
		out[s.About.Name] = string(data)
	}
	return out
}

const much = 1 << 40

func TestRoundsOutliveTheArchive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	a, _ := open(t, dir, much)
	write(t, a, 30, "b")
	write(t, a, 15, "a") // a clock may go back
	write(t, a, 45, "c")
	write(t, a, 45, "C") // once more the same round
	for _, a := range []*Archive[about]{a, first(open(t, dir, much))} {
		require.Equal(t, []Round{{0, 15}, {15, 30}, {30, 45}}, a.Rounds(0, 100, much))
		require.Equal(t, []Round{{15, 30}}, a.Rounds(15, 44, much))
		require.Equal(t, map[string]string{"first": "a", "second": "2a"}, read(t, a, Round{0, 15}))
		require.Equal(t, map[string]string{"first": "C", "second": "2C"}, read(t, a, Round{30, 45}))
		require.Equal(t, Usage{3, 3 * block, much, Round{0, 15}, Round{30, 45}}, a.Usage())
	}
	require.Equal(t, []Round{{30, 45}}, a.Rounds(0, 100, 2*block-1), "the newest that have so many bytes")
}

func first[A, B any](a A, _ B) A { return a }

func TestOldestGoBeyondTheLimit(t *testing.T) {
	dir := t.TempDir()
	a, _ := open(t, dir, 3*block)
	for end := int64(15); end <= 75; end += 15 {
		write(t, a, end, "x")
		require.LessOrEqual(t, filesIn(t, dir), 3)
	}
	require.Equal(t, []Round{{30, 45}, {45, 60}, {60, 75}}, a.Rounds(0, 100, much))
	require.ErrorIs(t, a.Write(Round{75, 90}, []Profile[about]{{Data: make([]byte, 3*block)}}), ErrTooBig)
	require.Equal(t, 3, filesIn(t, dir), "what cannot be kept costs nothing")

	require.NoError(t, a.SetMaxBytes(block))
	require.Equal(t, []Round{{60, 75}}, a.Rounds(0, 100, much))
	require.Equal(t, 1, filesIn(t, dir))
	_, err := a.Read(Round{30, 45})
	require.ErrorIs(t, err, ErrGone)
	b, l := open(t, dir, 0)
	require.Zero(t, b.Usage().Rounds)
	require.Zero(t, filesIn(t, dir))
	require.Empty(t, l.files)
}

func filesIn(t testing.TB, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(list)
}

// Each kind of damage only affects its own file, and is reported once.
func TestDamagedFilesAreLeftOut(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":         func([]byte) []byte { return nil },
		"begin alone":   func(b []byte) []byte { return b[:beforeHead-1] },
		"half a header": func(b []byte) []byte { return b[:beforeHead+9] },
		"no end":        func(b []byte) []byte { return b[:len(b)-1] },
		"another file":  func([]byte) []byte { return bytes.Repeat([]byte("text "), 100) },
		"zeros":         func(b []byte) []byte { return make([]byte, len(b)) },
		"flip in header": func(b []byte) []byte {
			b[beforeHead+30] ^= 4
			return b
		},
		"flip in data": func(b []byte) []byte {
			b[len(b)-1] ^= 4
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, l := open(t, dir, much)
			bad, good := write(t, a, 15, "some data"), write(t, a, 30, "more data")
			path := filepath.Join(dir, bad.fileName())
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, damage(whole), 0o600))

			for range 2 {
				require.ErrorIs(t, readAll(a, bad), ErrGone)
			}
			require.Equal(t, []string{bad.fileName()}, l.files)
			require.Equal(t, []Round{good}, a.Rounds(0, 100, much))
			require.Len(t, read(t, a, good), 2)
			require.EqualValues(t, 2*block, a.Usage().Bytes, "it goes when its turn comes")
			require.NoError(t, a.SetMaxBytes(block))
			require.NoFileExists(t, path)
		})
	}
}

// readAll reads a round with its data.
func readAll(a *Archive[about], r Round) error {
	stored, err := a.Read(r)
	for i := range stored {
		if _, dataErr := stored[i].Data(); err == nil {
			err = dataErr
		}
	}
	return err
}

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"notes.txt", "1-2.round.bak", "+1-2.round", "x-y.round", "half.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1-2.round"), 0o700))
	a, l := open(t, dir, 0)
	require.ElementsMatch(t, []string{"notes.txt", "1-2.round.bak", "+1-2.round", "x-y.round", "1-2.round"}, l.files)
	require.Zero(t, a.Usage().Rounds)
	require.Equal(t, 5, filesIn(t, dir), "only what was half written goes")
}

func TestFilesThatSomebodyRemoves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	a, l := open(t, dir, much)
	r := write(t, a, 15, "x")
	stored, err := a.Read(r)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	_, err = stored[0].Data()
	require.ErrorIs(t, err, ErrGone)
	require.Zero(t, a.Usage().Bytes)
	require.Empty(t, l.files, "nothing is wrong with it")
	require.Len(t, read(t, a, write(t, a, 30, "y")), 2, "the directory is made again")
}

// While a read of a file hangs, rounds are written, and the archive's other methods answer.
func TestReadsThatHang(t *testing.T) {
	dir := t.TempDir()
	a, _ := open(t, dir, 2*block)
	hung := write(t, a, 15, "x")
	path := filepath.Join(dir, hung.fileName())
	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600)) // who opens it waits for one who writes
	ended := make(chan error)
	for range 3 {
		go func() {
			_, err := a.Read(hung)
			ended <- err
		}()
	}
	write(t, a, 30, "y")
	require.Equal(t, []Round{hung, {15, 30}}, a.Rounds(0, 100, much))
	require.Equal(t, 2, a.Usage().Rounds)
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for a reader
	require.NoError(t, err)
	write(t, a, 45, "z") // removes it
	require.NoError(t, w.Close())
	for range 3 {
		require.ErrorIs(t, <-ended, ErrGone)
	}
}

// A full disk leaves no partial files.
func TestFailingWrites(t *testing.T) {
	dir := t.TempDir()
	a, _ := open(t, dir, much)
	r := Round{1, 2}
	require.NoError(t, os.Mkdir(filepath.Join(dir, r.fileName()), 0o700)) // no file can have its name
	err := a.Write(r, []Profile[about]{{Data: []byte("x")}})
	require.Error(t, err)
	require.False(t, errors.Is(err, fs.ErrNotExist))
	require.Equal(t, 1, filesIn(t, dir))
	require.Zero(t, a.Usage().Bytes)
	_, err = Open[about](filepath.Join(dir, r.fileName(), "\x00"), much, nil)
	require.Error(t, err)
}

// FuzzReadHeader reads untrusted files. All profiles that it finds are within the file.
func FuzzReadHeader(f *testing.F) {
	head, err := encodeHeader([]Profile[about]{{about{"a"}, []byte("data")}, {about{"b"}, nil}})
	require.NoError(f, err)
	f.Add(append(bytes.Clone(head), "data"...))
	f.Add(head)
	f.Add(head[:20])
	f.Add([]byte(magic + "\xff\xff\xff\xff"))
	var unpackers sync.Pool
	f.Fuzz(func(t *testing.T, content []byte) {
		size := int64(len(content))
		packed, err := packedHeader(bytes.NewReader(content), size)
		if err != nil {
			return
		}
		stored, err := readHeader[json.RawMessage](packed, size, &unpackers)
		if err != nil {
			require.Empty(t, stored)
		}
		for _, s := range stored {
			require.GreaterOrEqual(t, s.at, int64(beforeHead))
			require.LessOrEqual(t, s.at+s.Size, int64(len(content)))
		}
	})
}
