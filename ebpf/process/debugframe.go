package process

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/object/elffile"
)

// Programs that were compiled without .eh_frame, but with debug info, have their call frame information only in
// .debug_frame, which strip moves to the separate debug file. The debug file is looked for when a page has code without
// call frame information. A debug file that is found later is used for the pages that are built from then on.

const (
	// searchPause is how long a debug file that was not found is not looked for again.
	searchPause = time.Minute
	// sharePatience is how long a comparison of files waits for the search for a debug file.
	sharePatience = 10 * time.Second
)

// debugFrame is the separate debug file with the .debug_frame of a file. Safe for concurrent use.
type debugFrame struct {
	what string                          // for errors
	find func() (debugfile.Found, error) // blocks for some seconds at most
	wait waiter                          // of walks

	mu     sync.Mutex
	search chan struct{} // closed when the latest search has ended; nil if there was none
	ended  time.Time     // when it ended
	found  debugfile.Found
	shared bool // files of other roots may use the rows: it is too late for a debug file that is not this host's
	closed bool
}

// waiter waits until done is closed, and reports false if that takes too long.
type waiter func(done <-chan struct{}) bool

// patient returns a waiter that waits for a time.
func patient(patience time.Duration) waiter {
	return func(done <-chan struct{}) bool {
		select {
		case <-done:
			return true
		default:
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-done:
			return true
		case <-timer.C:
			return false
		}
	}
}

// getFile returns the debug file, or nil if there is none. An error for which filework.Later is true says that it is
// being looked for.
func (d *debugFrame) getFile() (*elffile.File, error) {
	if d == nil {
		return nil, nil
	}
	began := time.Now()
	done := d.start(began)
	if !d.wait(done) {
		return nil, &filework.SlowError{What: d.what, After: time.Since(began)}
	}
	return d.known(), nil
}

// known returns the debug file if it was found. A debug file that was written to since is of another build.
func (d *debugFrame) known() *elffile.File {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found.File == nil || d.found.File.Changed() {
		return nil
	}
	return d.found.File
}

// start starts a search if one is due, and returns a channel that is closed when the latest search has ended.
func (d *debugFrame) start(now time.Time) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := d.search == nil || !d.ended.IsZero() && now.Sub(d.ended) >= searchPause
	if !due || d.closed || d.found.File != nil {
		if d.search == nil {
			d.search = make(chan struct{})
			close(d.search)
		}
		return d.search
	}
	done := make(chan struct{})
	d.search, d.ended = done, time.Time{}
	go func() {
		found, _ := d.find() // places that hang are looked at again with the next search
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ended = time.Now(); d.closed || d.shared && found.Own {
			found.Close()
		} else {
			d.found = found
		}
		close(done)
	}()
	return done
}

// share allows files of other roots to use the rows if rows, the checksum of the input of the rows, is equal. It adds a
// debug file that is not this host's to the checksum.
func (d *debugFrame) share(rows *elffile.Sum) error {
	if d == nil {
		return nil
	}
	patient(sharePatience)(d.start(time.Now()))
	d.mu.Lock()
	d.shared = true
	found := d.found
	d.mu.Unlock()
	if !found.Own || found.File == nil {
		return nil
	}
	sum, err := found.File.DebugFrameSum()
	*rows = sha256.Sum256(append(rows[:], sum[:]...))
	return err
}

// close closes the debug file.
func (d *debugFrame) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.found.Close()
	d.found.File = nil
}

// debugFrameOf returns the debug file of a file that processes have mapped, or nil if it can have none, or needs none.
func (x *executables) debugFrameOf(e *Executable, owner uint32, file *elffile.File) *debugFrame {
	if file.IsGo() || file.HasDebugFrame() {
		return nil
	}
	w := debugfile.Wanted{Path: e.Path, Root: e.Root, Owner: owner, Useful: (*elffile.File).HasDebugFrame}
	if w.Identify(file); !w.Possible() {
		return nil
	}
	return &debugFrame{
		what: "looking for the debug file of " + e.Path,
		find: func() (debugfile.Found, error) {
			found, err := x.debug.Find(w)
			if found.File != nil && found.File.Fd() < 0 { // pages are built by who must not wait for a server
				found.Close()
				found = debugfile.Found{}
			}
			return found, err
		},
		wait: func(done <-chan struct{}) bool {
			defer x.indexes.spent(time.Now())
			return patient(x.indexes.patience(x.patience))(done)
		},
	}
}
