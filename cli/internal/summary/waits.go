package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	builder "github.com/headwater/headwater/ebpf/profile"
)

// Wait is a state of threads, with the time spent in it.
type Wait struct {
	Wait        string `json:"wait,omitempty"` // reason for the wait, see package wait; "" if unknown, or while running
	State       string `json:"state"`          // of the threads
	Nanoseconds int64  `json:"nanoseconds"`
}

// waits adds up a profile by the threads' waits, most time first. A profile of CPU time has none.
func waits(p *profile.Profile) (all []Wait) {
	sums := map[Wait]int64{}
	for _, s := range p.Sample {
		if state := s.Label[builder.LabelState]; len(state) > 0 {
			sums[Wait{Wait: strings.Join(s.Label[builder.LabelWait], " "), State: state[0]}] += s.Value[len(s.Value)-1]
		}
	}
	for w, ns := range sums {
		w.Nanoseconds = ns
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Nanoseconds, a.Nanoseconds), cmp.Compare(a.Wait, b.Wait), cmp.Compare(a.State, b.State))
	})
	return all
}

// writeWaits lists the threads' waits.
func (s *Summary) writeWaits(b *strings.Builder, total int64) {
	all := waits(s.Recording.Profile)
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "%8s %8s  wait (state)\n", "time", "seconds")
	for _, w := range all {
		of := w.Wait + " (" + w.State + ")"
		if w.Wait == "" {
			of = w.State
		}
		d := time.Duration(w.Nanoseconds)
		fmt.Fprintf(b, "%8s %8.2f  %s\n", percent(float64(w.Nanoseconds)/float64(total)), d.Seconds(), of)
	}
}
