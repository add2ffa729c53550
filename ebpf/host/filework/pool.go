// Package filework runs work on files and memory of other processes, which may block forever: a file on a FUSE or NFS
// mount whose server does not answer cannot be opened, and a blocked system call cannot be interrupted. Each piece of
// work has its own goroutine, its caller waits for a bounded time, and no further work is sent to a mount that hangs.
package filework

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/procfs"
)

// Origin is the source of the files that a piece of work reads.
type Origin struct {
	Mount string // names files that hang at the same time, such as a device or a process's root
	Owner uint32 // user ID of the process that has the files
}

// OfMemory returns the Origin of the memory of a process. Reads of it may hang: a page may be of a file that hangs, and
// so may the thread that holds the lock of the mappings.
func OfMemory(fs procfs.FS, pid uint32) Origin {
	return Origin{Mount: MountOfMemory(pid), Owner: fs.Owner(pid)}
}

// MountOfMemory returns the Mount of [OfMemory], without a system call.
func MountOfMemory(pid uint32) string { return fmt.Sprintf("memory of process %d", pid) }

// Limits of a Pool. Work hangs if its thread has not run for hangsAfter although the thread waits neither for a CPU nor
// for this process itself. Work is late if its caller no longer waits for it.
const (
	hangsAfter    = 500 * time.Millisecond
	hangsPerMount = 1
	hangsPerUser  = 8  // of each user except root
	hangsOfUsers  = 64 // of all users except root
	hangsOfRoot   = 64
	latePerMount  = 4 // late work that does not hang: it uses CPU time
	latePerUser   = 16
	CPUAtOnce     = 5 * time.Second // burst of CPU time for work of a user except root, ...
	CPUShare      = 10              // ... and 1/CPUShare of the time in the long run
	firstLook     = 500 * time.Millisecond
	unattended    = time.Second // after which work of Go is late
)

// Pool runs work. The zero value is ready; its methods may be called concurrently.
type Pool struct {
	Patience time.Duration // of Quick; 0 means QuickPatience. Set it before the first call.

	workers workers

	mu       sync.Mutex
	tasks    map[*Task]struct{} // running tasks
	watching bool
	refused  uint64
	cpu      allowances // of CPU time, for all users except root

	// For Quick.
	quick      int              // late tasks
	rests      map[string]*rest // by mount
	allowances allowances       // of the profiler's time, for waits for late work
	turned     func(turn int)   // for tests: called after each turn except the last
}

// Task is a piece of work.
type Task struct {
	what   string
	origin Origin
	began  time.Time
	done   chan struct{}

	// Guarded by the pool's mutex.
	quick   bool          // started by Quick, without a thread of its own
	waited  time.Duration // how long Quick waited for it
	thread  int
	late    bool
	hangs   bool
	ran     string    // the system's counts of the thread, see threadRan
	changed time.Time // when a change of ran was last seen
}

// SlowError says that work is not done yet, or was not started.
type SlowError struct {
	What    string        // such as "opening /mnt/libx.so"
	After   time.Duration // since its start; 0 if it was not started
	Refused string        // why it was not started; "" if it was
	Hangs   bool          // the work is not expected to end soon
}

func (e *SlowError) Error() string {
	if e.Refused != "" {
		return fmt.Sprintf("not ready: %s was postponed, %s", e.What, e.Refused)
	}
	if e.After == 0 {
		return "not ready: still " + e.What
	}
	return fmt.Sprintf("not ready: still %s after %v", e.What, e.After)
}

// Refused reports whether err says that work was not started.
func Refused(err error) bool {
	var slow *SlowError
	return errors.As(err, &slow) && slow.Refused != ""
}

// Hangs reports whether err says that work is not expected to end soon.
func Hangs(err error) bool {
	var slow *SlowError
	return errors.As(err, &slow) && slow.Hangs
}

// Scarce reports whether err says that this process or the host lacks file descriptors or memory now, so that the same
// work may succeed later.
func Scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// Later reports whether err says that work is not done now, but may be done later.
func Later(err error) bool {
	var slow *SlowError
	return errors.As(err, &slow) || Scarce(err)
}

// Do runs work and waits for it, at most for patience. A *SlowError says that the work is not done. It may still be
// running then, so the memory that it writes must be its own.
func (p *Pool) Do(o Origin, what string, patience time.Duration, work func()) error {
	t, err := p.Start(o, what, work)
	if err != nil {
		return err
	}
	return p.Wait(t, patience)
}

// Go runs work without waiting for it, unless too much work of the same origin is running.
func (p *Pool) Go(o Origin, what string, work func()) {
	if t, err := p.Start(o, what, work); err == nil {
		go p.Wait(t, unattended) // marks the work as late after that time
	}
}

// Start runs work. A *SlowError says that too much work of the same origin is running.
func (p *Pool) Start(o Origin, what string, work func()) (*Task, error) {
	t := &Task{what: what, origin: o, began: time.Now(), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if why, hangs := p.fullReason(o); why != "" {
		p.refused++
		return nil, &SlowError{What: what, Refused: why, Hangs: hangs}
	}
	if p.tasks == nil {
		p.tasks = map[*Task]struct{}{}
	}
	p.tasks[t] = struct{}{}
	p.workers.start(func() { p.runTask(t, work) })
	return t, nil
}

// runTask gives work its own thread while it runs, so that look can see whether the thread runs.
func (p *Pool) runTask(t *Task, work func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	p.mu.Lock()
	t.thread = thread
	p.mu.Unlock()
	before := clock.ThreadCPU()
	defer func() {
		spent := clock.ThreadCPU() - before
		p.mu.Lock()
		delete(p.tasks, t)
		p.spend(t.origin.Owner, spent, time.Now())
		p.mu.Unlock()
		close(t.done)
	}()
	work()
}

// Wait waits until a task is done, at most for patience.
func (p *Pool) Wait(t *Task, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.done:
		return nil
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, runs := p.tasks[t]; !runs {
		return nil
	}
	t.late = true
	if !p.watching {
		p.watching = true
		go p.watch()
	}
	return &SlowError{What: t.what, After: time.Since(t.began).Round(time.Millisecond), Hangs: t.hangs}
}

// fullReason returns why further work of an origin may not start, or "" if it may. hangs reports whether the reason is
// work that hangs.
func (p *Pool) fullReason(o Origin) (why string, hangs bool) {
	var mount, user, users, root, late, lateOfUser int
	for t := range p.tasks {
		switch {
		case t.hangs:
			mount += count(t.origin.Mount == o.Mount)
			user += count(t.origin.Owner == o.Owner)
			root += count(t.origin.Owner == 0)
			users += count(t.origin.Owner != 0)
		case t.late:
			lateOfUser += count(t.origin.Owner == o.Owner)
			late += count(t.origin == o)
		}
	}
	switch {
	case mount >= hangsPerMount:
		return "another file of this mount hangs", true
	case o.Owner != 0 && (user >= hangsPerUser || users >= hangsOfUsers), o.Owner == 0 && root >= hangsOfRoot:
		return "too many files of this user hang", true
	case late >= latePerMount:
		return "too many files of this mount are being read", false
	case lateOfUser >= latePerUser:
		return "too many files of this user are being read", false
	case p.overspent(o.Owner, time.Now()):
		return "files of this user take too much CPU time", false
	}
	return "", false
}

// spend notes CPU time that work of a user has taken. The caller holds the pool's mutex.
func (p *Pool) spend(owner uint32, spent time.Duration, now time.Time) {
	if owner != 0 && spent >= time.Millisecond {
		p.cpu.forget(now)
		p.cpu.spend(owner, spent, now, CPUAtOnce, CPUShare)
	}
}

// overspent reports whether work of a user has taken more CPU time than it may. The caller holds the pool's mutex.
func (p *Pool) overspent(owner uint32, now time.Time) bool {
	return !p.cpu.hasTime(owner, time.Millisecond, now)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// watch finds out which late work hangs. It ends when there is no late work.
func (p *Pool) watch() {
	for {
		time.Sleep(firstLook)
		p.mu.Lock()
		any := false
		for t := range p.tasks {
			if t.late && !t.quick {
				t.lookAtThread(time.Now())
				any = true
			}
		}
		if !any {
			p.watching = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

// lookAtThread finds out whether a task's thread has run since the last look, or could have run.
func (t *Task) lookAtThread(now time.Time) {
	ran := threadRan(t.thread)
	if t.changed.IsZero() || ran != t.ran || !threadBlocked(t.thread) {
		t.ran, t.changed, t.hangs = ran, now, false
		return
	}
	t.hangs = now.Sub(t.changed) >= hangsAfter
}

// Late returns how long late work has been running, by the description of the work.
func (p *Pool) Late() map[string]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := map[string]time.Duration{}
	for t := range p.tasks {
		if t.late {
			late[t.what] = max(late[t.what], time.Since(t.began))
		}
	}
	return late
}

// Counts returns how much work is late, how much late work hangs, and how much work has been refused so far.
func (p *Pool) Counts() (late, hanging int, refused uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.tasks {
		late += count(t.late)
		hanging += count(t.late && t.hangs)
	}
	return late, hanging, p.refused
}
