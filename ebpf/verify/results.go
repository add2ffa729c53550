package verify

import (
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// results sums up comparisons.
type results struct {
	options Options

	samples, userStacks, complete uint64
	outcomes                      map[string]uint64
	skipped                       map[string]uint64
	unpaired, lost                uint64

	stacks, agree                        map[Extent]uint64 // stacks with a copy; stacks without a difference
	frames, agreed, missing, uncheckable uint64            // callers
	finishes                             map[kernel.Finish]uint64
	ends                                 map[Extent]map[string]uint64 // number of reference walks, by End
	disagreements                        map[place]uint64
	incomplete                           map[place]*incompleteCount
	examples                             map[place][]example
}

// place is the executable and the reason of a difference or an early end.
type place struct {
	exe    unwind.ExeID
	reason string
}

type incompleteCount struct{ stacks, continued uint64 }

// example is a stack to show as a whole.
type example struct {
	walk       *walk
	stack      reference.Stack
	comparison comparison
}

func newResults(o Options) results {
	return results{
		options: o, outcomes: map[string]uint64{}, finishes: map[kernel.Finish]uint64{}, skipped: map[string]uint64{},
		stacks: map[Extent]uint64{}, agree: map[Extent]uint64{},
		ends:          map[Extent]map[string]uint64{Whole: {}, InPart: {}, NotComparable: {}},
		disagreements: map[place]uint64{}, incomplete: map[place]*incompleteCount{}, examples: map[place][]example{},
	}
}

// taken counts a sample, comparable or not.
func (r *results) taken(w *walk) {
	r.samples++
	r.outcomes[w.outcome.String()]++
	if !w.outcome.HasUserPart() {
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

// skipWalk counts a walk that cannot be compared.
func (r *results) skipWalk(w *walk, reason string) {
	r.skipped[reason]++
	r.notChecked(w)
}

func (r *results) notChecked(w *walk) { r.uncheckable += uint64(max(len(w.frames)-1, 0)) }

// addWalk counts the comparison of a walk with the reference.
func (r *results) addWalk(w *walk, s reference.Stack, c comparison) {
	r.stacks[c.extent]++
	r.ends[c.extent][string(s.End)]++
	r.frames += uint64(c.compared)
	r.agreed += uint64(c.agreed)
	r.missing += uint64(c.missing)
	r.uncheckable += uint64(c.uncheckable)
	if c.extent != NotComparable {
		r.finishes[w.finish]++
	}
	if c.difference == Same {
		r.agree[c.extent]++
	}
	at := place{reason: string(c.difference), exe: exeAt(w.frames, c.at)}
	switch {
	case c.difference == Missing:
		r.incompleteAt(w).continued++
		fallthrough
	case c.difference == Same && !w.outcome.Complete():
		at = place{reason: w.outcome.String(), exe: exeAt(w.frames, len(w.frames)-1)}
	case c.difference == Same:
		return
	default:
		r.disagreements[at]++
	}
	if len(r.examples[at]) < r.options.Examples {
		r.examples[at] = append(r.examples[at], example{w, s, c})
	}
}

func exeAt(frames []kernel.Frame, i int) unwind.ExeID {
	if i < 0 || i >= len(frames) {
		return 0
	}
	return frames[i].Exe
}
