// Package archive keeps rounds of profiles on disk, one file per round, within a number of bytes. In memory it keeps
// only the times and the size of each round.
//
// A file is written under a temporary name and then renamed, so that a killed program leaves either a complete file or
// none. Files are not synced: after a crash of the host the newest files may be torn. Checksums detect torn files,
// which are left out.
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
	block     = 4096 // bytes: a file takes a multiple of this on disk
)

// ErrGone says that a round is no longer kept, or cannot be read: Rounds no longer returns it.
var ErrGone = errors.New("a round on disk is gone")

// ErrTooBig says that a round is larger than the limit for all rounds.
var ErrTooBig = errors.New("the round is larger than the limit")

// Round is the time of a round, in ms since 1970. No two rounds of an archive have the same times.
type Round struct{ Start, End int64 }

func (r Round) fileName() string {
	return strconv.FormatInt(r.Start, 10) + "-" + strconv.FormatInt(r.End, 10) + suffix
}

// parseName is the reverse of Round.fileName.
func parseName(name string) (r Round, ok bool) {
	start, end, _ := strings.Cut(strings.TrimSuffix(name, suffix), "-")
	var err1, err2 error
	r.Start, err1 = strconv.ParseInt(start, 10, 64)
	r.End, err2 = strconv.ParseInt(end, 10, 64)
	return r, err1 == nil && err2 == nil && name == r.fileName()
}

// file is a file of an archive.
type file struct {
	Round
	bytes int64 // on disk
	bad   bool  // it cannot be read; it counts as used space until it is removed
}

// Archive is a directory of rounds. A T, a type that JSON can encode, describes each profile. An Archive is safe for
// concurrent use; calls of Write wait for each other.
type Archive[T any] struct {
	dir     string
	damaged func(path string, err error)

	writing   sync.Mutex // held while files are written and removed
	reading   sync.Mutex // held while a file is read: an unresponsive disk blocks only one thread
	unpackers sync.Pool

	mu       sync.Mutex // never held while the disk is used
	maxBytes int64
	files    []file // by end, oldest first
	bytes    int64
}

// Open lists the rounds in a directory, and creates it if it does not exist. It removes the oldest rounds beyond
// maxBytes. It calls damaged, which must not call the archive, once for each file that cannot be read or does not
// belong to the archive.
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

// found adds a file of the directory to the list. It removes a file that an interrupted write has left.
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

// onDisk returns the disk space of a file of that size.
func onDisk(size int64) int64 { return max(1, (size+block-1)/block) * block }

// SetMaxBytes changes the limit for the bytes of all files, and removes the oldest files beyond it.
func (a *Archive[T]) SetMaxBytes(bytes int64) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	a.maxBytes = bytes
	a.mu.Unlock()
	return a.makeRoom(0)
}

// makeRoom removes the oldest files until bytes more fit. The caller holds a.writing.
func (a *Archive[T]) makeRoom(bytes int64) error {
	for {
		oldest, ok := a.excess(bytes)
		if !ok {
			return nil
		}
		if err := os.Remove(filepath.Join(a.dir, oldest.fileName())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		a.forget(oldest)
	}
}

// excess returns the oldest round if bytes more do not fit.
func (a *Archive[T]) excess(bytes int64) (oldest Round, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.files) == 0 || a.bytes+bytes <= a.maxBytes {
		return Round{}, false
	}
	return a.files[0].Round, true
}

// forget removes a file from the list.
func (a *Archive[T]) forget(r Round) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.files, func(f file) bool { return f.Round == r })
	switch {
	case at < 0:
		return
	case at == 0: // nearly always the first: no copying
		a.bytes -= a.files[0].bytes
		a.files = a.files[1:]
	default:
		a.bytes -= a.files[at].bytes
		a.files = slices.Delete(a.files, at, at+1)
	}
}

// Usage describes the contents of an archive.
type Usage struct {
	Rounds          int
	Bytes, MaxBytes int64
	First, Last     Round // oldest and newest round, if there are any
}

// Usage returns the usage of the archive.
func (a *Archive[T]) Usage() Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := Usage{Rounds: len(a.files), Bytes: a.bytes, MaxBytes: a.maxBytes}
	if len(a.files) > 0 {
		u.First, u.Last = a.files[0].Round, a.files[len(a.files)-1].Round
	}
	return u
}

// Rounds returns the rounds that ended after from and not after to, in ms since 1970, oldest first. It returns only the
// newest rounds whose files have at most maxBytes in total.
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

// failed records that the file of a round could not be read, and returns the error for the reader.
func (a *Archive[T]) failed(r Round, err error) error {
	path := filepath.Join(a.dir, r.fileName())
	if errors.Is(err, fs.ErrNotExist) {
		a.forget(r)
	} else if a.markBad(r) {
		a.damaged(path, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrGone, path, err)
}

// markBad marks a file as unreadable, and reports whether it was not marked before.
func (a *Archive[T]) markBad(r Round) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.files, func(f file) bool { return f.Round == r })
	if at < 0 || a.files[at].bad { // less than 0: it has been removed to make room
		return false
	}
	a.files[at].bad = true
	return true
}

// addFile adds a newly written file to the list.
func (a *Archive[T]) addFile(fresh file) {
	a.forget(fresh.Round)
	a.mu.Lock()
	defer a.mu.Unlock()
	at, _ := slices.BinarySearchFunc(a.files, fresh.End+1, func(f file, end int64) int { return cmp.Compare(f.End, end) })
	a.files = slices.Insert(a.files, at, fresh)
	a.bytes += fresh.bytes
}
