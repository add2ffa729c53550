package process

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Workers open the files that are not known yet, because a file on a mount that hangs must not delay other work. Until
// the file is open, its process has an executable without rows and names for it. The process is read again after the
// file has been opened, or some time later. So is a process whose files or mappings could not be read because file
// descriptors or memory ran out. An opened file never hangs: files that are not on this host are copied.
const (
	// openPatience is how long the Tracker waits for a file that is not known yet. It does no other work during that
	// time.
	openPatience = 200 * time.Millisecond
	// openAtOnce and openShare bound the total wait for files when CPUs or disks are busy and many programs start:
	// openAtOnce is the longest burst, and 1/openShare is the share of the time in the long run.
	openAtOnce = 2 * time.Second
	openShare  = 10
	// indexAtOnce and indexShare bound in the same way the total wait for indexes of files without an index: any user
	// can make such files.
	indexAtOnce = openPatience
	indexShare  = 20
	// retrySlow is how often processes with slow files are read again.
	retrySlow = 2 * time.Second
	// maxRetry bounds the processes that are read again at once.
	maxRetry = 64
	// copyChecked is how long a copy is assumed to equal its file.
	copyChecked = 30 * time.Second
)

// slow has the files that could not be opened in time. The registry's mutex guards it.
type slow struct {
	byMapped map[mappedFile]*Executable
	tried    map[uint32]time.Time // when processes with such files were last read
	arrived  []uint32             // processes whose files were opened since
}

// waits bounds the total time that the Tracker waits for work.
type waits struct{ left *rate.Limiter } // milliseconds

func newWaits(atOnce time.Duration, share int64) waits {
	return waits{rate.NewLimiter(rate.Limit(time.Second.Milliseconds()/share), int(atOnce.Milliseconds()))}
}

// patience returns how long to wait for work now. A wait longer than openPatience is not bounded: it delays no other
// work.
func (w waits) patience(wanted time.Duration) time.Duration {
	if wanted > openPatience {
		return wanted
	}
	return min(wanted, time.Duration(max(0, w.left.Tokens()))*time.Millisecond)
}

// spent notes that the Tracker has waited for work since a time.
func (w waits) spent(began time.Time) {
	now := time.Now()
	w.left.ReserveN(now, min(w.left.Burst(), int(now.Sub(began).Milliseconds())))
}

// origin returns where the file of a mapping comes from.
func (x *executables) origin(pid uint32, m *procfs.Mapping) filework.Origin {
	mount := fmt.Sprintf("device %d:%d", unix.Major(m.Dev), unix.Minor(m.Dev))
	return filework.Origin{Mount: mount, Owner: x.fs.Owner(pid)}
}

// openedFile is a file that was opened for a mapping.
type openedFile struct {
	e     *Executable // with a reference
	fresh bool
}

// openSlowly opens the file of a mapping, on a worker.
func (x *executables) openSlowly(pid uint32, m procfs.Mapping) (*Executable, bool) {
	defer x.opening.spent(time.Now())
	o, err := filework.Get(x.work, x.origin(pid, &m), "opening "+m.Path, x.opening.patience(x.patience),
		func() (openedFile, error) { return x.findFile(pid, &m) },
		func(late openedFile) {
			x.release(late.e)
			x.mu.Lock()
			x.slow.arrived = append(x.slow.arrived, pid)
			x.mu.Unlock()
		})
	if err == nil {
		return o.e, o.fresh
	}
	x.retry(pid)
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.lastKnown(&m); e != nil { // the file hangs now, and was read before
		return e, false
	}
	return x.standIn(pid, &m, err)
}

// indexing returns the function that makes the index of a file. The wait for an index is as long as the wait for
// opening a file, or shorter after recent waits for indexes.
func (x *executables) indexing(o filework.Origin, path string) indexing {
	return func(work func()) (wait func() error, err error) {
		task, err := x.work.Start(o, "reading the call frame information of "+path, work)
		if err != nil {
			return nil, err
		}
		return func() error {
			defer x.indexes.spent(time.Now())
			return x.work.Wait(task, x.indexes.patience(x.patience))
		}, nil
	}
}

// retry makes Reap read a process again some time later.
func (x *executables) retry(pid uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slow.tried[pid] = time.Now()
}

// standIn returns the executable that stands in for a file that could not be opened yet.
func (x *executables) standIn(pid uint32, m *procfs.Mapping, err error) (*Executable, bool) {
	at := mappedFileOf(m)
	e := x.slow.byMapped[at]
	fresh := e == nil || x.byID[e.ID] == nil
	if fresh {
		e = &Executable{Path: m.Path, Root: x.fs.RootPath(pid, ""), Err: err, remote: true, pending: true}
		x.addExecutable(e, newImage(e, nil))
		x.slow.byMapped[at] = e
	}
	e.refs++
	return e, fresh
}

// takeSlow returns the processes to read again because of slow files.
func (x *executables) takeSlow(now time.Time) []uint32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := x.slow.arrived
	x.slow.arrived = nil
	for pid, tried := range x.slow.tried {
		if len(again) >= maxRetry {
			break
		}
		if now.Sub(tried) >= retrySlow {
			again = append(again, pid)
			delete(x.slow.tried, pid)
		}
	}
	for at, e := range x.slow.byMapped {
		if x.byID[e.ID] == nil {
			delete(x.slow.byMapped, at)
		}
	}
	return again
}
