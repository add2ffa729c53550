package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
)

// maxCountBytes bounds the cached counts of profiles that were read for a timeline.
const maxCountBytes = 2 << 20

// counts maps each process, or target, to its value in a profile, in the profile's unit.
type counts map[string]int64

// size implements sized.
func (c counts) size() int64 {
	n := int64(256)
	for name := range c {
		n += int64(len(name)) + 64
	}
	return n
}

// countsOf returns the values of processes, or targets, in the selected part of a profile. In a profile without a
// period, each sample has the value each. countsOf reads profiles, one at a time, if the selection depends on each
// sample or if samples have their own values; it caches these results, since the next timeline has almost the same
// profiles.
func (p *Page) countsOf(ctx context.Context, k *kept, s selection, by string, each int64) (counts, error) {
	if !s.perSample() && (s.isPeriodic() || k.hasValues()) {
		return k.counts(s, by, each), nil
	}
	of := s
	of.from, of.to = k.start, k.end
	key := fmt.Sprintf("%s %s %d %s", by, k.target.id, k.dataSize(), of.values().Encode())
	return p.counted.getView(ctx, key, func() (counts, error) {
		f, err := p.foldProfile(k)
		if err != nil {
			return nil, err
		}
		out := counts{}
		f.EachOutermost(s.choice(), func(labels *profile.Sample, outermost string, value int64) {
			name := k.target.name
			if by == "process" {
				name = k.processOf(labels, outermost)
			}
			out[name] += value
		})
		return out, nil
	})
}

// counts returns the values that are known without reading the profile.
func (k *kept) counts(s selection, by string, each int64) counts {
	if by == "target" && s.isPeriodic() { // its processes may be unknown
		samples, _, _ := k.countsOf(s)
		return counts{k.target.name: int64(samples) * each}
	}
	out := counts{}
	for _, p := range k.Processes {
		if (s.comm != "" && s.comm != p.Comm) || (s.pid != 0 && s.pid != p.PID) {
			continue
		}
		name, value := p.Comm, int64(p.Value)
		if by == "target" {
			name = k.target.name
		}
		if s.isPeriodic() {
			value = int64(p.Samples) * each
		}
		out[name] += value
	}
	return out
}

// hasValues reports whether the value of each process is known. It is unknown in profiles that an earlier version has
// kept.
func (k *kept) hasValues() bool {
	return len(k.Processes) > 0 && !slices.ContainsFunc(k.Processes, func(p Process) bool { return p.Value == 0 })
}

// unknownProcess stands for processes that no information in a sample identifies.
const unknownProcess = "(unknown)"

// processOf returns the name of the process of samples with these labels and this outermost frame: the label comm, the
// frame, the process with the pid label, or the profile's only process.
func (k *kept) processOf(labels *profile.Sample, root string) string {
	if comms := labels.Label["comm"]; len(comms) > 0 {
		return comms[0]
	}
	i := slices.IndexFunc(k.Processes, func(p Process) bool { return p.Comm == root })
	if i < 0 {
		i = slices.IndexFunc(k.Processes, func(p Process) bool { return hasPID(labels, p.PID) })
	}
	if i < 0 && len(k.Processes) == 1 {
		i = 0
	}
	if i < 0 {
		return unknownProcess
	}
	return k.Processes[i].Comm
}
