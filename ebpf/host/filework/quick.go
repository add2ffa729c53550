package filework

import (
	"cmp"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of Quick. Work may be late although no file hangs. If CPUs are busy, the work waits for its turn, and Quick
// waits several times as long. A thread that holds the lock of its process's memory may also wait for its turn. So a
// mount rests until its work is done, and then for as long as Quick waited for it, and longer when it is late again.
// Each user has an allowance: waits for late work of one user take at most a tenth of the profiler's time.
const (
	QuickPatience = 200 * time.Millisecond
	QuickTurns    = 5               // number of waits, while the work is on a CPU or waits for one
	LateAtOnce    = 2 * time.Second // burst of waits for late work of a user, ...
	LateShare     = 10              // ... and 1/LateShare of the time in the long run

	lateMemory = 30 * time.Second // after which the late work of a mount is forgotten
)

// QuickWork is work for Quick.
type QuickWork struct {
	What  string        // such as "reading the memory of process 1"
	Mount string        // as in Origin
	Owner func() uint32 // as in Origin; called only if it is needed
	Run   func()
}

// Quick runs work that takes little time unless it hangs, such as one system call. It waits a fifth of a second, or a
// second if CPUs are busy. The work has no thread of its own, which makes it cheap. A *SlowError says that the work is
// not done, as for Do. A Pool with a Patience waits that long instead of a fifth of a second.
func (p *Pool) Quick(w QuickWork) error {
	patience, why := p.patience(&w)
	if why != "" {
		return &SlowError{What: w.What, Refused: why, Hangs: true}
	}
	began, done := time.Now(), make(chan struct{})
	var thread atomic.Int64 // thread of the work; 0 before the work starts
	p.workers.start(func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread.Store(int64(unix.Gettid()))
		w.Run()
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for turn := 1; ; turn++ {
		select {
		case <-done:
			return nil
		case <-timer.C:
		}
		select {
		case <-done: // just now
			return nil
		default:
		}
		if turn == QuickTurns || threadBlocked(int(thread.Load())) {
			break
		}
		if p.turned != nil {
			p.turned(turn)
		}
		timer.Reset(patience)
	}
	patience = time.Since(began)
	t := &Task{what: w.What, origin: Origin{w.Mount, w.Owner()}, began: began, done: done}
	p.markHanging(t, time.Now())
	go func() {
		<-done
		p.recovered(t, time.Now())
	}()
	return &SlowError{What: w.What, After: patience, Hangs: true}
}

// patience returns how long to wait for work, or why it may not start.
func (p *Pool) patience(w *QuickWork) (patience time.Duration, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.forget(now)
	if r := p.rests[w.Mount]; r != nil && now.Before(r.until) {
		p.refused++
		return 0, "its mount was slow a moment ago"
	}
	if len(p.allowances) == 0 && p.quick == 0 { // the usual case
		return p.quickPatience(), ""
	}
	owner := w.Owner()
	if patience = p.timeLeft(owner, now); patience == 0 {
		why = "files of this user were slow for too long"
	} else {
		why, _ = p.fullReason(Origin{w.Mount, owner})
	}
	if why != "" {
		p.refused++
	}
	return patience, why
}

// timeLeft returns how long to wait for a user's work. It is never a short time, because then more and more work would
// be late. The caller holds the pool's mutex.
func (p *Pool) timeLeft(owner uint32, now time.Time) time.Duration {
	patience := p.quickPatience()
	if p.allowances.hasTime(owner, min(patience, LateAtOnce), now) {
		return patience
	}
	return 0
}

func (p *Pool) quickPatience() time.Duration { return cmp.Or(p.Patience, QuickPatience) }

// markHanging notes late work.
func (p *Pool) markHanging(t *Task, now time.Time) {
	t.late, t.hangs, t.quick = true, true, true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quick++
	if p.tasks == nil {
		p.tasks = map[*Task]struct{}{}
	}
	p.tasks[t] = struct{}{}
	t.waited = now.Sub(t.began)
	p.allowances.spend(t.origin.Owner, min(t.waited+time.Millisecond, LateAtOnce), now, LateAtOnce, LateShare)
}

// recovered notes that late work is done.
func (p *Pool) recovered(t *Task, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, t)
	p.quick--
	if p.rests == nil {
		p.rests = map[string]*rest{}
	}
	r := p.rests[t.origin.Mount]
	if r == nil {
		r = &rest{}
		p.rests[t.origin.Mount] = r
	}
	r.length = min(max(t.waited, 2*r.length), LateShare*t.waited)
	r.until = now.Add(r.length)
}

// forget forgets the mounts and users whose work has not been late for some time. The caller holds the pool's mutex.
func (p *Pool) forget(now time.Time) {
	for mount, r := range p.rests {
		if now.Sub(r.until) >= lateMemory {
			delete(p.rests, mount)
		}
	}
	p.allowances.forget(now)
}

// rest is a time in which Quick runs no work of a mount, because work was late.
type rest struct {
	length time.Duration
	until  time.Time
}
