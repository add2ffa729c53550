package server

import (
	"cmp"
	"math"
	"slices"
)

// sums adds up the properties of profiles that are known without their data, by target and kind.
type sums struct {
	of        map[sumKey]*kept
	processes map[processKey]int // index of each process in the processes of its sum
}

type sumKey struct{ target, kind string }

type processKey struct {
	of   *kept
	pid  uint32
	comm string
}

// summed returns the properties of the profiles that s selects, with all their processes. It adds up the profiles of
// each target on disk, so the memory use is proportional to the number of processes.
func (p *Page) summed(s selection) (out []*kept) {
	all := sums{map[sumKey]*kept{}, map[processKey]int{}}
	s = p.newest(s)
	p.rounds(s, math.MaxInt64).eachRound(s, func(entries []*kept) error {
		for _, k := range entries {
			if k.stored == nil {
				out = append(out, k)
			} else if sum, isNew := all.addProfile(k); isNew {
				out = append(out, sum)
			}
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b *kept) int { return cmp.Compare(a.end, b.end) })
	return out
}

// addProfile adds a profile. The caller adds profiles in the order of their ends.
func (all *sums) addProfile(k *kept) (sum *kept, isNew bool) {
	key := sumKey{k.target.id, k.kindName()}
	if sum = all.of[key]; sum == nil {
		sum, isNew = &kept{target: k.target, start: k.start}, true
		sum.Kind, sum.Unit, sum.Period = k.Kind, k.Unit, k.Period
		all.of[key] = sum
	} else {
		sum.joined++
	}
	sum.end = k.end
	sum.Samples, sum.WithUser, sum.Complete = sum.Samples+k.Samples, sum.WithUser+k.WithUser, sum.Complete+k.Complete
	for _, p := range k.Processes {
		all.addProcess(sum, p)
	}
	return sum, isNew
}

func (all *sums) addProcess(sum *kept, p Process) {
	key := processKey{sum, p.PID, p.Comm}
	at, ok := all.processes[key]
	if !ok {
		all.processes[key] = len(sum.Processes)
		sum.Processes = append(sum.Processes, p)
		return
	}
	to := &sum.Processes[at]
	to.Samples, to.WithUser, to.Complete = to.Samples+p.Samples, to.WithUser+p.WithUser, to.Complete+p.Complete
	to.Value += p.Value
}
