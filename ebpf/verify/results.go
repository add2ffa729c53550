package verify

import (
	"github.com/headwater/headwater/ebpf/kernel"
)

// results add up comparisons.
type results struct {
	options Options

	samples, userStacks, complete uint64
	outcomes                      map[string]uint64
	skipped                       map[string]uint64
	unpaired, lost                uint64

	compared, whole             uint64 // stacks
	frames, agreed, uncheckable uint64
	finishes                    map[kernel.Finish]uint64 // stacks compared
	framesByCFI, agreedByCFI    uint64                   // not in frames and agreed
	ends                        map[string]uint64
	disagreements               map[place]uint64
	incomplete                  map[place]*incompleteCount
	examples                    map[place][]example
}

// place is where and why walks differ or end.
type place struct {
	exe    uint32
	reason string
}

type incompleteCount struct{ stacks, continued uint64 }

// example is a stack to be shown in full.
type example struct {
	walk       *walk
	truth      truth
	comparison comparison
}

func newResults(o Options) results {
	return results{
		options: o, outcomes: map[string]uint64{}, finishes: map[kernel.Finish]uint64{}, skipped: map[string]uint64{}, ends: map[string]uint64{},
		disagreements: map[place]uint64{}, incomplete: map[place]*incompleteCount{}, examples: map[place][]example{},
	}
}

// taken counts a sample, whether it can be compared or not.
func (r *results) taken(w *walk) {
	r.samples++
	r.outcomes[w.outcome.String()]++
	if !hasUserPart(w.outcome) {
		return
	}
	r.userStacks++
	if w.outcome.Complete() {
		r.complete++
		return
	}
	r.incompleteAt(w).stacks++
}

func (r *results) incompleteAt(w *walk) *incompleteCount {
	p := place{reason: w.outcome.String()}
	if n := len(w.frames); n > 0 {
		p.exe = w.frames[n-1].Exe
	}
	c := r.incomplete[p]
	if c == nil {
		c = &incompleteCount{}
		r.incomplete[p] = c
	}
	return c
}

// add compares a walk with the reference.
func (r *results) add(w *walk, t truth) {
	c := compareStacks(w.frames, w.outcome.Complete(), &t)
	r.compared++
	r.ends[t.end.String()]++
	r.finishes[w.finish]++
	if w.finish == kernel.ByCFI { // which is how the reference walks: that they agree proves nothing
		r.framesByCFI += uint64(c.compared)
		r.agreedByCFI += uint64(c.agreed)
	} else {
		r.frames += uint64(c.compared)
		r.agreed += uint64(c.agreed)
	}
	r.uncheckable += uint64(c.uncheckable)
	at := place{reason: string(c.difference), exe: exeAt(t.frames, c.at)}
	switch {
	case c.difference != Same:
		r.disagreements[at]++
	case !w.outcome.Complete() && (c.missing > 0 || t.end.Complete()):
		r.whole++
		r.incompleteAt(w).continued++
		at = place{reason: w.outcome.String(), exe: exeAt(w.frames, len(w.frames)-1)}
	case !w.outcome.Complete():
		r.whole++
		at = place{reason: w.outcome.String(), exe: exeAt(w.frames, len(w.frames)-1)}
	default:
		r.whole++
		return
	}
	if len(r.examples[at]) < r.options.Examples {
		r.examples[at] = append(r.examples[at], example{w, t, c})
	}
}

func exeAt(frames []kernel.Frame, i int) uint32 {
	if i < 0 || i >= len(frames) {
		return 0
	}
	return frames[i].Exe
}
