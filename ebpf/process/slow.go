package process

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/procfs"
)

// Files that are not known yet are opened by workers: one of a mount that hangs must
// hold nobody up. Its process has an executable without rows and names for it, and is
// read again when the file was opened after all, or a while later; so is one whose files
// or mappings could not be read when file descriptors or memory ran out. What is opened
// once never hangs: files that are not on this host are copied.
const (
	// openPatience is how long a file that is not known yet is waited for. Nothing else
	// happens meanwhile.
	openPatience = 200 * time.Millisecond
	// openAtOnce and openShare bound how long files are waited for, where CPUs or disks are busy and many programs
	// begin: so long at once, and in the long run 1/openShare of the time.
	openAtOnce = 2 * time.Second
	openShare  = 10
	// indexAtOnce and indexShare bound likewise how long indexes of files that have none are waited for: any user can
	// make such files.
	indexAtOnce = openPatience
	indexShare  = 20
	// retrySlow is how often the processes are read again whose files were slow.
	retrySlow = 2 * time.Second
	// maxRetry bounds how many of them at once.
	maxRetry = 64
	// copyChecked is how long a copy is believed to be what the file is.
	copyChecked = 30 * time.Second
)

// slow is what is known of files that could not be opened in time. The registry's
// mutex guards it.
type slow struct {
	byMapped map[mappedFile]*Executable
	tried    map[uint32]time.Time // when processes with such files were read last
	arrived  []uint32             // processes whose files were opened since
}

// waits bound how long work is waited for.
type waits struct{ left *rate.Limiter } // milliseconds

func newWaits(atOnce time.Duration, share int64) waits {
	return waits{rate.NewLimiter(rate.Limit(time.Second.Milliseconds()/share), int(atOnce.Milliseconds()))}
}

// patience returns how long work may be waited for now: as long as wanted, where nobody has to go on meanwhile.
func (w waits) patience(wanted time.Duration) time.Duration {
	if wanted > openPatience {
		return wanted
	}
	return min(wanted, time.Duration(max(0, w.left.Tokens()))*time.Millisecond)
}

// spent notes that work was waited for since then.
func (w waits) spent(began time.Time) {
	now := time.Now()
	w.left.ReserveN(now, min(w.left.Burst(), int(now.Sub(began).Milliseconds())))
}

// origin is where the file of a mapping comes from.
func (x *executables) origin(pid uint32, m *procfs.Mapping) filework.Origin {
	mount := fmt.Sprintf("device %d:%d", unix.Major(m.Dev), unix.Minor(m.Dev))
	return filework.Origin{Mount: mount, Owner: x.fs.Owner(pid)}
}

// memoryOf is where the memory of a process comes from: its pages may be those of a
// file that hangs, and so may what holds the lock of its mappings.
func memoryOf(fs procfs.FS, pid uint32) filework.Origin {
	return filework.Origin{Mount: mountOfMemory(pid), Owner: fs.Owner(pid)}
}

func mountOfMemory(pid uint32) string { return fmt.Sprintf("memory of process %d", pid) }

// openedFile is a file that was opened for a mapping.
type openedFile struct {
	e     *Executable // with a reference
	fresh bool
}

// openSlowly opens the file of a mapping, on a worker.
func (x *executables) openSlowly(pid uint32, m procfs.Mapping) (*Executable, bool) {
	defer x.opening.spent(time.Now())
	o, err := filework.Get(x.work, x.origin(pid, &m), "opening "+m.Path, x.opening.patience(x.patience),
		func() (openedFile, error) { return x.find(pid, &m) },
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

// indexing returns what makes the index of a file. It is waited for as long as for opening a file, but where others
// have been waited for lately.
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

// retry has a process read again in a while.
func (x *executables) retry(pid uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slow.tried[pid] = time.Now()
}

// standIn returns the executable that stands for a file that could not be opened yet.
func (x *executables) standIn(pid uint32, m *procfs.Mapping, err error) (*Executable, bool) {
	at := mappedFileOf(m)
	e := x.slow.byMapped[at]
	fresh := e == nil || x.byID[e.ID] == nil
	if fresh {
		e = &Executable{Path: m.Path, Root: x.fs.RootPath(pid, ""), Err: err, remote: true, pending: true}
		x.add(e, newImage(e, nil))
		x.slow.byMapped[at] = e
	}
	e.refs++
	return e, fresh
}

// takeSlow returns the processes to be read again because of files that were slow.
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
