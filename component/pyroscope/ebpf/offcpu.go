package ebpf

import (
	"slices"
	"strings"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/profile"
)

// OffCPUArguments enable profiles of the time that threads spend off CPU, of the type offcpu. Without the block and
// off_cpu_threshold there are none.
type OffCPUArguments struct {
	Rate   int      `river:"rate,attr,optional"`   // times per second that threads are sampled; 0: never
	States []string `river:"states,attr,optional"` // of threads to show
	Labels []string `river:"labels,attr,optional"` // of samples: state, wait and waker
}

// SetToDefault implements river.Defaulter.
func (a *OffCPUArguments) SetToDefault() {
	*a = OffCPUArguments{Rate: ebpf.DefaultOffCPURate, Labels: []string{profile.LabelState, profile.LabelWait}}
	for _, s := range ebpf.DefaultOffCPUStates() {
		a.States = append(a.States, s.String())
	}
}

// offCPUStates are the states of threads off CPU.
func offCPUStates() (names []string) {
	for s := kernel.Runnable; s < kernel.Ended; s++ {
		names = append(names, s.String())
	}
	return names
}

// validate returns an error that names the attribute that is out of range. The block may be missing.
func (a *OffCPUArguments) validate() error {
	if a == nil {
		return nil
	}
	if a.Rate < 0 || a.Rate > ebpf.MaxOffCPURate {
		return component.Refuse("off_cpu", "is invalid: rate must be between 0 and %d, got %d", ebpf.MaxOffCPURate, a.Rate)
	}
	known := []string{profile.LabelState, profile.LabelWait, profile.LabelWaker}
	for _, of := range []struct {
		name         string
		given, known []string
	}{
		{"states", a.States, offCPUStates()}, {"labels", a.Labels, known},
	} {
		for _, name := range of.given {
			if !slices.Contains(of.known, name) {
				return component.Refuse("off_cpu", "is invalid: %s must be some of %s, got %q", of.name,
					strings.Join(of.known, ", "), name)
			}
		}
	}
	return nil
}

// apply sets the options for off-CPU time. Alloy's off_cpu_threshold above 0 means the block with its defaults: its
// value is the probability of recording a wait, which does not apply to sampled time.
func (a *OffCPUArguments) apply(o *ebpf.Options, threshold float64) {
	if a == nil {
		if threshold <= 0 {
			return
		}
		a = &OffCPUArguments{}
		a.SetToDefault()
	}
	o.OffCPU.Rate = a.Rate
	for _, name := range a.States {
		if s, ok := kernel.ParseThreadState(name); ok {
			o.OffCPU.States = append(o.OffCPU.States, s)
		}
	}
	o.NoStateLabel = !slices.Contains(a.Labels, profile.LabelState)
	o.OffCPU.Wakers = slices.Contains(a.Labels, profile.LabelWaker)
	o.NoWaitLabel = !slices.Contains(a.Labels, profile.LabelWait)
}
