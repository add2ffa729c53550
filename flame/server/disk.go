package server

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/flame/server/archive"
)

// Limits of the use of the disk.
const (
	maxDiskQueue = 8               // rounds waiting to be written
	diskPatience = 5 * time.Second // for reading a directory at the start
)

// Disk is the part of the history that is on disk.
type Disk struct {
	Rounds   int
	Bytes    int64
	MaxBytes int64
	Since    time.Time // start of the oldest round; zero if there is none
	Missing  uint64    // rounds of this run that could not be written
	Problem  string    // why the last write failed; "" if it succeeded
}

// disk writes rounds in its own goroutine, so that a slow disk does not delay profiling.
type disk struct {
	dir   string
	begun time.Time
	log   func(message string, err error)

	maxBytes atomic.Int64
	holder   atomic.Pointer[archive.Archive[Profile]] // nil until it is open
	tried    chan struct{}                            // closed after the first attempt to open it
	done     chan struct{}                            // closed when all rounds are written

	mu      sync.Mutex
	queue   chan []*kept // nil: closed
	missing uint64
	problem string
}

// openDisk starts to use a directory.
func openDisk(dir string, maxBytes int64, log func(string, error)) *disk {
	d := &disk{dir: dir, begun: time.Now(), log: log, tried: make(chan struct{}), done: make(chan struct{}),
		queue: make(chan []*kept, maxDiskQueue)}
	d.maxBytes.Store(maxBytes)
	go d.storeRounds(d.queue)
	return d
}

func (d *disk) storeRounds(queue <-chan []*kept) {
	defer close(d.done)
	err := d.openArchive()
	close(d.tried)
	d.noteError(err, 0)
	for round := range queue {
		d.noteError(d.write(round), 1)
	}
}

// openArchive opens the archive if it is not open yet, and applies the current limit.
func (d *disk) openArchive() error {
	if a := d.holder.Load(); a != nil {
		return a.SetMaxBytes(d.maxBytes.Load())
	}
	a, err := archive.Open[Profile](d.dir, d.maxBytes.Load(), func(path string, err error) {
		d.log("a file of the history on disk is left out: "+path, err)
	})
	if err == nil {
		d.holder.Store(a)
	}
	return err
}

func (d *disk) write(round []*kept) error {
	if err := d.openArchive(); err != nil {
		return err
	}
	profiles := make([]archive.Profile[Profile], 0, len(round))
	for _, k := range round {
		profiles = append(profiles, archive.Profile[Profile]{About: k.Profile, Data: k.Data})
	}
	return d.holder.Load().Write(archive.Round{Start: round[0].start, End: round[0].end}, profiles)
}

// noteError records the result of a disk operation on a number of rounds, and logs it if it differs from the previous
// result.
func (d *disk) noteError(err error, rounds uint64) {
	d.mu.Lock()
	before := d.problem
	if d.problem = ""; err != nil {
		d.problem = err.Error()
		d.missing += rounds
	}
	missing := d.missing
	d.mu.Unlock()
	switch {
	case err != nil && before == "":
		d.log("the history on disk cannot be written; profiling goes on without it", err)
	case err == nil && before != "":
		d.log(fmt.Sprintf("the history on disk works again; missing rounds so far: %d", missing), nil)
	}
}

var errSlowDisk = errors.New("the disk is too slow: rounds wait to be written")

// addRound queues a round for writing.
func (d *disk) addRound(round []*kept) {
	if len(round) == 0 {
		return
	}
	d.mu.Lock()
	full := false
	if d.queue != nil {
		select {
		case d.queue <- round:
		default:
			full = true
		}
	}
	d.mu.Unlock()
	if full {
		d.noteError(errSlowDisk, 1)
	}
}

// close waits for the queued rounds to be written, at most for patience. The rounds on disk can still be read.
func (d *disk) close(patience time.Duration) {
	d.mu.Lock()
	if d.queue != nil {
		close(d.queue)
		d.queue = nil
	}
	d.mu.Unlock()
	select {
	case <-d.done:
	case <-time.After(patience):
	}
}

// reader returns the archive, nil if it cannot be read. While the directory is being read at the start, it waits up to
// diskPatience.
func (d *disk) reader() *archive.Archive[Profile] {
	if d == nil {
		return nil
	}
	select {
	case <-d.tried:
	case <-time.After(time.Until(d.begun.Add(diskPatience))):
	}
	return d.holder.Load()
}

// state returns the state of the history on disk. It never waits.
func (d *disk) state() (Disk, bool) {
	if d == nil {
		return Disk{}, false
	}
	out := Disk{MaxBytes: d.maxBytes.Load()}
	d.mu.Lock()
	out.Missing, out.Problem = d.missing, d.problem
	d.mu.Unlock()
	if a := d.holder.Load(); a != nil {
		u := a.Usage()
		if out.Rounds, out.Bytes = u.Rounds, u.Bytes; u.Rounds > 0 {
			out.Since = time.UnixMilli(u.First.Start)
		}
	}
	return out, true
}

// SetDisk also keeps rounds in a directory from now on, within maxBytes. With maxBytes 0 it keeps no further rounds on
// disk, and leaves the directory unchanged. It does not wait for the disk.
func (p *Page) SetDisk(dir string, maxBytes int64) {
	p.diskMu.Lock()
	defer p.diskMu.Unlock()
	switch old := p.disk.Load(); {
	case maxBytes <= 0:
		p.disk.Store(nil)
		if old != nil {
			old.close(0)
		}
	case old == nil || old.dir != dir:
		p.disk.Store(openDisk(dir, maxBytes, p.options.Log))
		if old != nil {
			old.close(0)
		}
	default:
		old.maxBytes.Store(maxBytes) // applies to the next round
	}
}

// keepOnDisk queues a round for writing if rounds are kept on disk.
func (p *Page) keepOnDisk(round []*kept) {
	if d := p.disk.Load(); d != nil {
		d.addRound(round)
	}
}

// CloseDisk writes the waiting rounds, for at most patience. The page still shows the rounds on disk.
func (p *Page) CloseDisk(patience time.Duration) {
	if d := p.disk.Load(); d != nil {
		d.close(patience)
	}
}

// Disk describes the history on disk; it returns false if none is configured.
func (p *Page) Disk() (Disk, bool) { return p.disk.Load().state() }
