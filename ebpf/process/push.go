package process

import (
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
)

// touch marks p's mappings as changed.
func (t *Tracker) touch(p *Process) {
	if !p.dirty {
		p.dirty = true
		t.dirty = append(t.dirty, p)
	}
}

// The store is told all mappings of a process at once. Of one with many it is told
// less often: after a pause for every so many of them. Until then walks that meet
// a new one are finished in user space.
const (
	mappingsPerPause = 1024
	pushPause        = 10 * time.Millisecond
)

// rested reports whether the store may be told of p's mappings again.
func (p *Process) rested(now time.Time) bool {
	many := (len(p.mappings) + len(p.added)) / mappingsPerPause
	return now.Sub(p.pushed) >= time.Duration(many)*pushPause
}

// flush tells the store what has changed.
func (t *Tracker) flush() {
	now := time.Now()
	later := t.dirty[:0]
	for _, p := range t.dirty {
		switch {
		case t.processes[p.PID] != p, p.ended != 0: // nobody will look there any more
			p.dirty = false
		case !p.rested(now):
			later = append(later, p)
		default:
			p.dirty = false
			if t.push(p); len(p.vm.waiting) > 0 {
				p.dirty = true
				later = append(later, p)
			}
		}
	}
	clear(t.dirty[len(later):])
	t.dirty = later
}

func (t *Tracker) push(p *Process) {
	t.generation++
	if p.generation == 0 {
		p.generation = t.generation
	}
	if p.replaced.generation == 0 {
		p.replaced.generation = t.generation
	}
	t.findCode(p)
	t.settle(p)
	p.pushed = time.Now()
	ms := make([]unwind.Mapping, 0, len(p.mappings))
	for _, m := range p.mappings {
		if m.start < 1<<63 { // not [vsyscall]
			ms = append(ms, m.forUnwinder())
		}
	}
	err := t.store.SetProcess(p.PID, unwind.Process{Mappings: ms, Generation: t.generation, Ignore: p.ignored, MakesCode: p.vm.code != nil, SameProgramAs: p.relative})
	if err != nil {
		t.note(err)
	}
	p.relative = p.PID
}
