package verify

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
)

// sameInstant is the maximum difference between the times of a sample and its copy. Both are taken in one interrupt,
// one before the BPF program and one at its start. Samples of one CPU are further apart.
const sameInstant = uint64(50 * time.Microsecond)

// pairs matches samples with copies. Either may come first.
type pairs struct {
	walks  map[uint32][]*walk                // walks without a copy so far, by CPU
	copies map[uint32][]*kernel.PerfSnapshot // copies without a sample so far, by CPU
}

func newPairs() pairs { return pairs{map[uint32][]*walk{}, map[uint32][]*kernel.PerfSnapshot{}} }

func (w *walk) fitsSnapshot(c *kernel.PerfSnapshot) bool {
	return w.tid == c.TID && w.time+sameInstant > c.Time && c.Time+sameInstant > w.time
}

// ofCopy returns the walk of a copy, or keeps a copy of the copy and returns nil.
func (p *pairs) ofCopy(c *kernel.PerfSnapshot) *walk {
	waiting := p.walks[c.CPU]
	i := slices.IndexFunc(waiting, func(w *walk) bool { return w.fitsSnapshot(c) })
	if i < 0 {
		kept := *c
		kept.Stack = slices.Clone(c.Stack)
		p.copies[c.CPU] = append(p.copies[c.CPU], &kept)
		return nil
	}
	w := waiting[i]
	p.walks[c.CPU] = slices.Delete(waiting, i, i+1)
	return w
}

// ofWalk returns the copy of a walk, or keeps the walk and returns nil.
func (p *pairs) ofWalk(w *walk) *kernel.PerfSnapshot {
	waiting := p.copies[w.cpu]
	i := slices.IndexFunc(waiting, w.fitsSnapshot)
	if i < 0 {
		p.walks[w.cpu] = append(p.walks[w.cpu], w)
		return nil
	}
	c := waiting[i]
	p.copies[w.cpu] = slices.Delete(waiting, i, i+1)
	return c
}

// expire drops walks and copies from before a time. It passes dropped walks with a user part to use: they should have
// been compared.
func (p *pairs) expire(before uint64, use func(*walk)) {
	for cpu, walks := range p.walks {
		p.walks[cpu] = slices.DeleteFunc(walks, func(w *walk) bool {
			old := w.time < before
			if old && w.outcome.HasUserPart() {
				use(w)
			}
			return old
		})
	}
	for cpu, copies := range p.copies {
		p.copies[cpu] = slices.DeleteFunc(copies, func(c *kernel.PerfSnapshot) bool { return c.Time < before })
	}
}
