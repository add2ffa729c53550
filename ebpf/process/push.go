package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/unwind"
)

// The store gets all mappings of a process at once. Those of one with many it gets
// less often: after a pause for every mappingsPerPause of them. Until then walks that meet
// a new one are finished in user space.
const (
	mappingsPerPause = 1024
	pushPause        = 10 * time.Millisecond
)

// rested reports whether the store may get p's mappings again.
func (p *Process) rested(now time.Time) bool {
	many := (len(p.mappings) + len(p.added)) / mappingsPerPause
	return now.Sub(p.pushed) >= time.Duration(many)*pushPause
}

// publish copies what has changed to the store. t.mu is held: the store must get changes in
// their order.
func (t *Tracker) publish(now time.Time) {
	for _, pid := range t.state.removed {
		t.failed(t.store.DeleteProcess(pid))
	}
	t.state.removed = t.state.removed[:0]
	later := t.state.dirty[:0]
	for _, p := range t.state.dirty {
		switch {
		case t.state.processes[p.PID] != p, p.ended != 0: // nobody will look there any more
			p.dirty = false
		case !p.rested(now):
			later = append(later, p)
		default:
			p.dirty = p.waits()
			if t.push(p, now); p.dirty {
				later = append(later, p)
			}
		}
	}
	clear(t.state.dirty[len(later):])
	t.state.dirty = later
}

// push copies what is known of a process to the store.
func (t *Tracker) push(p *Process, now time.Time) {
	s := &t.state
	s.generation++
	p.publish(s.generation, clock.Monotonic())
	s.mergeMappings(p)
	p.pushed = now
	ms := t.pushed[:0]
	for _, m := range p.mappings {
		if m.start < 1<<63 && !m.pending() && !m.doubt { // not [vsyscall]; walks end where nothing is known of the code
			ms = append(ms, m.forUnwinder())
		}
	}
	t.pushed = ms
	out := unwind.Process{
		Mappings: ms, Generation: s.generation, Ignore: t.ignores(p), MakesCode: len(p.code) > 0,
		Restless: p.calm != 0, Exec: p.exec(),
	}
	p.pushedExec = out.Exec
	if i := p.interpretation; i != nil && i.interpreter != nil {
		out.Interpreter, out.Bias = i.interpreter.number, i.bias
	}
	t.failed(t.store.SetProcess(p.PID, out))
}

// followFiles lets processes have what came out about the files that they have mapped: some
// are equal and share their rows, others were written to. It returns the commands that read
// the processes again whose files were.
func (t *Tracker) followFiles() (commands []Command) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moved, stale := t.exes.share(), t.exes.takeStale()
	if len(moved)+len(stale) == 0 {
		return nil
	}
	for pid, p := range t.state.processes {
		uses := func(executables map[*Executable]bool) bool {
			return p.ended == 0 && slices.ContainsFunc(p.mappings, func(m mapping) bool { return executables[m.exe] })
		}
		t.state.mergeMappings(p)
		if uses(stale) {
			commands = append(commands, t.state.scan(pid, nil))
		} else if uses(moved) {
			t.push(p, time.Now()) // at once: the image that it had will be closed
		}
	}
	return commands
}
