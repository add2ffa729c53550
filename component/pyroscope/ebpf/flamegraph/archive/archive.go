// Package archive keeps rounds of profiles on disk, one file a round, within a number of bytes. In memory it has the
// times and the size of each.
//
// A file is written under another name and then renamed, so that a program that is killed leaves it whole or not at
// all. It is not synced: a host that fails may leave the newest files torn. Checksums find those, and one that is torn
// is left out.
package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	suffix    = ".round"
	tmpSuffix = ".tmp"
	block     = 4096 // bytes: a file takes a multiple of them on disk
)

// ErrGone says that a round is not kept any more, or cannot be read: Rounds does not name it again.
var ErrGone = errors.New("a round on disk is gone")

// ErrTooBig says that a round is larger than all rounds may be.
var ErrTooBig = errors.New("the round is larger than the limit")

// Round is when a round was, in ms since 1970. Two rounds of an archive differ in it.
type Round struct{ Start, End int64 }

func (r Round) name() string {
	return strconv.FormatInt(r.Start, 10) + "-" + strconv.FormatInt(r.End, 10) + suffix
}

// parseName is the reverse of Round.name.
func parseName(name string) (r Round, ok bool) {
	start, end, _ := strings.Cut(strings.TrimSuffix(name, suffix), "-")
	var err1, err2 error
	r.Start, err1 = strconv.ParseInt(start, 10, 64)
	r.End, err2 = strconv.ParseInt(end, 10, 64)
	return r, err1 == nil && err2 == nil && name == r.name()
}

// file is a file of an archive.
type file struct {
	Round
	bytes int64 // on disk
	bad   bool  // it cannot be read; it takes its bytes until its turn to go
}

// Archive is a directory of rounds, whose profiles are described by a T, a type that JSON can hold. It is safe for
// concurrent use; calls of Write wait for each other.
type Archive[T any] struct {
	dir     string
	damaged func(path string, err error)

	writing   sync.Mutex // held while files are written and removed
	reading   sync.Mutex // held while a file is read: a disk that hangs holds up one thread of the program
	unpackers sync.Pool

	mu       sync.Mutex // never held while the disk is used
	maxBytes int64
	files    []file // by end, oldest first
	bytes    int64
}

// Open reads which rounds a directory has, and makes it if it does not exist. Rounds beyond maxBytes go, the oldest
// first. damaged, which must not call the archive, is told once of each file that cannot be read or is not
// the archive's.
func Open[T any](dir string, maxBytes int64, damaged func(path string, err error)) (*Archive[T], error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	a := &Archive[T]{dir: dir, damaged: damaged, maxBytes: maxBytes}
	for _, entry := range list {
		a.found(entry)
	}
	slices.SortFunc(a.files, func(x, y file) int { return cmp.Compare(x.End, y.End) })
	return a, a.SetMaxBytes(maxBytes)
}

// found takes a file of the directory into the list, or removes what an end of the program has left half written.
func (a *Archive[T]) found(entry fs.DirEntry) {
	path := filepath.Join(a.dir, entry.Name())
	info, err := entry.Info()
	switch r, ok := parseName(entry.Name()); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		a.damaged(path, err)
	case strings.HasSuffix(entry.Name(), tmpSuffix):
		if err := os.Remove(path); err != nil {
			a.damaged(path, err)
		}
	case !ok || !info.Mode().IsRegular():
		a.damaged(path, errors.New("it is no round of profiles"))
	default:
		a.files = append(a.files, file{Round: r, bytes: onDisk(info.Size())})
		a.bytes += onDisk(info.Size())
	}
}

// onDisk returns what a file of that size takes.
func onDisk(size int64) int64 { return max(1, (size+block-1)/block) * block }

// SetMaxBytes changes how many bytes the files may take. The oldest ones that are too many go.
func (a *Archive[T]) SetMaxBytes(bytes int64) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	a.maxBytes = bytes
	a.mu.Unlock()
	return a.makeRoom(0)
}

// makeRoom removes the oldest files until there is room for bytes. The caller holds a.writing.
func (a *Archive[T]) makeRoom(bytes int64) error {
	for {
		oldest, ok := a.excess(bytes)
		if !ok {
			return nil
		}
		if err := os.Remove(filepath.Join(a.dir, oldest.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		a.forget(oldest)
	}
}

// excess returns the oldest round, if there is no room for bytes.
func (a *Archive[T]) excess(bytes int64) (oldest Round, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.files) == 0 || a.bytes+bytes <= a.maxBytes {
		return Round{}, false
	}
	return a.files[0].Round, true
}

// forget takes a file off the list.
func (a *Archive[T]) forget(r Round) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.files, func(f file) bool { return f.Round == r })
	switch {
	case at < 0:
		return
	case at == 0: // as nearly always: all others stay where they are
		a.bytes -= a.files[0].bytes
		a.files = a.files[1:]
	default:
		a.bytes -= a.files[at].bytes
		a.files = slices.Delete(a.files, at, at+1)
	}
}

// Usage is what an archive holds.
type Usage struct {
	Rounds          int
	Bytes, MaxBytes int64
	First, Last     Round // the oldest and the newest, if there are rounds
}

// Usage returns what the archive holds.
func (a *Archive[T]) Usage() Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := Usage{Rounds: len(a.files), Bytes: a.bytes, MaxBytes: a.maxBytes}
	if len(a.files) > 0 {
		u.First, u.Last = a.files[0].Round, a.files[len(a.files)-1].Round
	}
	return u
}

// Rounds returns the rounds that ended after from and not after to, in ms since 1970, oldest first: the newest ones,
// whose files have maxBytes together at most.
func (a *Archive[T]) Rounds(from, to, maxBytes int64) (rounds []Round) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range slices.Backward(a.files) {
		if f.End <= from || maxBytes < f.bytes {
			break
		}
		if f.End <= to && !f.bad {
			rounds = append(rounds, f.Round)
			maxBytes -= f.bytes
		}
	}
	slices.Reverse(rounds)
	return rounds
}

// failed takes note that the file of a round could not be read, and returns what the reader returns.
func (a *Archive[T]) failed(r Round, err error) error {
	path := filepath.Join(a.dir, r.name())
	if errors.Is(err, fs.ErrNotExist) {
		a.forget(r)
	} else if a.markBad(r) {
		a.damaged(path, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrGone, path, err)
}

// markBad notes that a file cannot be read, and reports whether that is news.
func (a *Archive[T]) markBad(r Round) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.files, func(f file) bool { return f.Round == r })
	if at < 0 || a.files[at].bad { // less than 0: it had to make room
		return false
	}
	a.files[at].bad = true
	return true
}

// add takes a file into the list that was written just now.
func (a *Archive[T]) add(fresh file) {
	a.forget(fresh.Round)
	a.mu.Lock()
	defer a.mu.Unlock()
	at, _ := slices.BinarySearchFunc(a.files, fresh.End+1, func(f file, end int64) int { return cmp.Compare(f.End, end) })
	a.files = slices.Insert(a.files, at, fresh)
	a.bytes += fresh.bytes
}
