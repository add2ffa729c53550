package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/unwind"
)

// The store gets all mappings of a process at once. A process with many mappings is pushed less often: after one
// pushPause for each mappingsPerPause mappings. Until then, walks that reach a new mapping are finished in user space.
const (
	mappingsPerPause = 1024
	pushPause        = 10 * time.Millisecond
)

// rested reports whether p's mappings may be pushed again.
func (p *Process) rested(now time.Time) bool {
	many := (len(p.mappings) + len(p.added)) / mappingsPerPause
	return now.Sub(p.pushed) >= time.Duration(many)*pushPause
}

// publish copies all changes to the store. The caller holds t.mu, because the store must get changes in order.
func (t *Tracker) publish(now time.Time) {
	for _, pid := range t.state.removed {
		t.failed(t.store.DeleteProcess(pid))
	}
	t.state.removed = t.state.removed[:0]
	later := t.state.dirty[:0]
	for _, p := range t.state.dirty {
		switch {
		case t.state.processes[p.PID] != p, p.ended != 0: // no walk needs it again
			p.dirty = false
		case !p.rested(now):
			later = append(later, p)
		default:
			p.dirty = p.waits()
			if t.pushProcess(p, now); p.dirty {
				later = append(later, p)
			}
		}
	}
	clear(t.state.dirty[len(later):])
	t.state.dirty = later
}

// pushProcess copies the state of a process to the store.
func (t *Tracker) pushProcess(p *Process, now time.Time) {
	s := &t.state
	s.generation++
	p.publish(s.generation, clock.Monotonic())
	s.mergeMappings(p)
	p.pushed = now
	ms := t.pushed[:0]
	for _, m := range p.mappings {
		if m.start < 1<<63 && !m.pending() && !m.doubt { // not [vsyscall]; walks end at unknown code
			ms = append(ms, m.forUnwinder())
		}
	}
	t.pushed = ms
	out := unwind.Process{
		Mappings: ms, Generation: s.generation, Ignore: t.ignores(p), MakesCode: len(p.code) > 0,
		Restless: p.calm != 0, Exec: p.execNumber(),
	}
	p.pushedExec = out.Exec
	if i := p.interpreted; i != nil && i.interpreter != nil {
		out.Interpreter, out.Bias = i.interpreter.Number(), i.bias
	}
	t.failed(t.store.SetProcess(p.PID, out))
}

// followFiles updates processes with news about their mapped files: some files share the rows of an equal file now, and
// some were written to. It returns the commands that read processes again whose files were written to.
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
			commands = append(commands, t.state.scanCommand(pid, nil))
		} else if uses(moved) {
			t.pushProcess(p, time.Now()) // at once: its previous image will be closed
		}
	}
	return commands
}
