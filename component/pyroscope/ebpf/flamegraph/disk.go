package flamegraph

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/component/pyroscope/ebpf/flamegraph/archive"
)

// Limits of the use of the disk.
const (
	maxDiskQueue = 8               // rounds that wait to be written
	diskPatience = 5 * time.Second // for a directory to be read, at first
)

// Disk is the part of the history that is on disk.
type Disk struct {
	Rounds   int
	Bytes    int64
	MaxBytes int64
	Since    time.Time // the begin of the oldest round; zero if there is none
	Missing  uint64    // rounds of this run that could not be written
	Problem  string    // why the last one could not; "" if it could
}

// disk writes rounds in a goroutine of its own, so that a slow disk does not hold up profiling.
type disk struct {
	dir   string
	begun time.Time
	log   func(message string, err error)

	maxBytes atomic.Int64
	holder   atomic.Pointer[archive.Archive[Profile]] // nil until it is open
	tried    chan struct{}                            // closed when opening it was tried
	done     chan struct{}                            // closed when all is written

	mu      sync.Mutex
	queue   chan []*kept // nil: closed
	missing uint64
	problem string
}

// openDisk begins to use a directory.
func openDisk(dir string, maxBytes int64, log func(string, error)) *disk {
	d := &disk{dir: dir, begun: time.Now(), log: log, tried: make(chan struct{}), done: make(chan struct{}),
		queue: make(chan []*kept, maxDiskQueue)}
	d.maxBytes.Store(maxBytes)
	go d.run(d.queue)
	return d
}

func (d *disk) run(queue <-chan []*kept) {
	defer close(d.done)
	err := d.open()
	close(d.tried)
	d.note(err, 0)
	for round := range queue {
		d.note(d.write(round), 1)
	}
}

// open opens the archive if it is not open yet, and has it keep the limit.
func (d *disk) open() error {
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
	if err := d.open(); err != nil {
		return err
	}
	profiles := make([]archive.Profile[Profile], 0, len(round))
	for _, k := range round {
		profiles = append(profiles, archive.Profile[Profile]{About: k.Profile, Data: k.Data})
	}
	return d.holder.Load().Write(archive.Round{Start: round[0].start, End: round[0].end}, profiles)
}

// note takes note of how a use of the disk ended, of a number of rounds, and says so if that is news.
func (d *disk) note(err error, rounds uint64) {
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
		d.log("the history on disk cannot be kept; profiling goes on without", err)
	case err == nil && before != "":
		d.log(fmt.Sprintf("the history on disk is kept again; missing rounds so far: %d", missing), nil)
	}
}

var errSlowDisk = errors.New("the disk is too slow: rounds wait to be written")

// add has a round written.
func (d *disk) add(round []*kept) {
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
		d.note(errSlowDisk, 1)
	}
}

// close writes what waits, for a while at most. What is on disk can still be read.
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

// reader returns the archive, nil if it cannot be read. While its directory is read, it waits for a moment.
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

// state never waits.
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

// SetDisk has rounds kept in a directory, too, from now on, in maxBytes at most; 0: none are, and what the directory
// has stays. It does not wait for the disk.
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
		old.maxBytes.Store(maxBytes) // the next round holds to it
	}
}

// keepOnDisk has a round written, if rounds are.
func (p *Page) keepOnDisk(round []*kept) {
	if d := p.disk.Load(); d != nil {
		d.add(round)
	}
}

// CloseDisk writes what waits to be written, for as long as patience lasts. The rounds on disk are still shown.
func (p *Page) CloseDisk(patience time.Duration) {
	if d := p.disk.Load(); d != nil {
		d.close(patience)
	}
}

// Disk returns what is kept on disk; false if nothing is to be.
func (p *Page) Disk() (Disk, bool) { return p.disk.Load().state() }
