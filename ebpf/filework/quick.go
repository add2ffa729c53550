package filework

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of Quick. Work may be late though nothing holds it back: where CPUs are busy, it waits
// for its turn, and is waited for some times as long; but so does a thread that has the lock of
// its process's memory. So a mount rests until its work is done and then for as long as that was
// waited for, and longer when it is late again. Its user has an allowance: what is waited for in
// vain costs one user a tenth of our time at most.
const (
	QuickPatience = 200 * time.Millisecond
	QuickTurns    = 5               // as often, while the work is on a CPU or waits for one
	LateAtOnce    = 2 * time.Second // that a user's work is waited for in vain, ...
	LateShare     = 10              // ... and in the long run 1/LateShare of the time

	lateMemory = 30 * time.Second // after which it is forgotten that a mount was late
)

// QuickWork is what Quick runs.
type QuickWork struct {
	What  string        // such as "reading the memory of process 1"
	Mount string        // as that of an Origin
	Owner func() uint32 // likewise; asked for where it matters
	Run   func()
}

// Quick runs work that takes next to no time unless it hangs, such as one system call, and
// waits for it a fifth of a second, or a second where CPUs are busy. It has no thread of its own,
// which makes it cheap. A *SlowError says that it is not done, as that of Do.
func (p *Pool) Quick(w QuickWork) error {
	patience, why := p.patience(&w)
	if why != "" {
		return &SlowError{What: w.What, Refused: why, Hangs: true}
	}
	began, done := time.Now(), make(chan struct{})
	var thread atomic.Int64 // that it runs on; 0: it has not begun
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
		case <-done: // meanwhile
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
	p.hang(t, time.Now())
	go func() {
		<-done
		p.recovered(t, time.Now())
	}()
	return &SlowError{What: w.What, After: patience, Hangs: true}
}

// patience returns how long work is waited for, or else why it may not begin.
func (p *Pool) patience(w *QuickWork) (patience time.Duration, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.forget(now)
	if r := p.rests[w.Mount]; r != nil && now.Before(r.until) {
		p.refused++
		return 0, "it made us wait a moment ago"
	}
	if len(p.allowances) == 0 && p.quick == 0 { // nearly always
		return QuickPatience, ""
	}
	owner := w.Owner()
	if patience = p.left(owner, now); patience == 0 {
		why = "that user made us wait too long"
	} else {
		why, _ = p.full(Origin{w.Mount, owner})
	}
	if why != "" {
		p.refused++
	}
	return patience, why
}

// left returns how long a user's work is waited for: never a little, for then more and more would be late. The pool's
// mutex is held.
func (p *Pool) left(owner uint32, now time.Time) time.Duration {
	if p.allowances.has(owner, QuickPatience, now) {
		return QuickPatience
	}
	return 0
}

// hang notes work that is late.
func (p *Pool) hang(t *Task, now time.Time) {
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

// recovered notes that work which was late is done.
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

// forget forgets who has not made us wait for a while. The pool's mutex is held.
func (p *Pool) forget(now time.Time) {
	for mount, r := range p.rests {
		if now.Sub(r.until) >= lateMemory {
			delete(p.rests, mount)
		}
	}
	p.allowances.forget(now)
}

// rest is how long Quick runs nothing of a mount, after work was late.
type rest struct {
	length time.Duration
	until  time.Time
}
