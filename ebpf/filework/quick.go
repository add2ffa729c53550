package filework

import "time"

// Limits of Quick. Who makes us wait again and again is not waited for meanwhile: of one
// user it costs a tenth of our time at most.
const (
	QuickPatience = 200 * time.Millisecond
	RestOfMount   = 30 * time.Second // after work was late, for its mount
	RestOfUser    = 2 * time.Second  // and for all of its user
)

// Quick runs work that takes next to no time unless it hangs, such as one system call, and
// waits for it a fifth of a second. It has no thread of its own, which makes it cheap. A
// *SlowError says that it is not done, as that of Do. about is asked where it matters: where
// the work's files come from, and what it is.
func (p *Pool) Quick(about func() (o Origin, what string), work func()) error {
	if err := p.refuseQuick(about); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	timer := time.NewTimer(QuickPatience)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	}
	o, what := about()
	t := &Task{what: what, origin: o, began: time.Now().Add(-QuickPatience), done: done}
	p.hang(t)
	go func() {
		<-done
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tasks, t)
		p.rest(o, time.Now())
	}()
	return &SlowError{What: what, After: QuickPatience, Hangs: true}
}

// refuseQuick returns an error if work may not begin.
func (p *Pool) refuseQuick(about func() (Origin, string)) error {
	p.mu.Lock()
	calm := len(p.rests) == 0
	p.mu.Unlock()
	if calm { // nearly always
		return nil
	}
	o, what := about()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.wake(now)
	why, hangs := p.full(o)
	if why == "" && (now.Before(p.rests[resting{o.Mount, o.Owner}]) || now.Before(p.rests[resting{"", o.Owner}])) {
		why, hangs = "that user made us wait a moment ago", true
	}
	if why == "" {
		return nil
	}
	p.refused++
	return &SlowError{What: what, Refused: why, Hangs: hangs}
}

// hang notes work that hangs.
func (p *Pool) hang(t *Task) {
	t.late, t.hangs, t.quick = true, true, true
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks == nil {
		p.tasks = map[*Task]struct{}{}
	}
	p.tasks[t] = struct{}{}
	p.rest(t.origin, now)
}

// rest lets Quick run nothing of an origin for a while. The pool's mutex is held.
func (p *Pool) rest(o Origin, now time.Time) {
	if p.rests == nil {
		p.rests = map[resting]time.Time{}
	}
	p.rests[resting{o.Mount, o.Owner}] = now.Add(RestOfMount)
	p.rests[resting{"", o.Owner}] = now.Add(RestOfUser)
}

// wake forgets rests that are over, unless work hangs: as long as there are any, Quick looks
// whose work it is to run. The pool's mutex is held.
func (p *Pool) wake(now time.Time) {
	for t := range p.tasks {
		if t.quick {
			return
		}
	}
	for r, until := range p.rests {
		if now.After(until) {
			delete(p.rests, r)
		}
	}
}

// resting is whom Quick does not wait for: the work of a mount, or "" for all of a user.
type resting struct {
	mount string
	owner uint32
}
