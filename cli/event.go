package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headwater/headwater/ebpf/source/probe"
	"github.com/headwater/headwater/flame/kind"
)

// event is the value of --event: the kind of samples.
type event struct {
	kind  kind.Kind
	probe probe.Probe // kind is this probe's kind
}

// Set implements pflag.Value. For an unsupported event, its error names an alternative.
func (e *event) Set(text string) error {
	switch text {
	case "cpu", "cpu-clock", "task-clock":
		e.kind = kind.CPU
		return nil
	case "page-faults", "faults":
		e.kind = kind.PageFaults
		return nil
	case "major-faults":
		e.kind = kind.MajorFaults
		return nil
	case "off-cpu", "offcpu":
		e.kind = kind.OffCPU
		return nil
	case "heap":
		e.kind = kind.Heap
		return nil
	case "wall":
		e.kind = kind.Wall
		return nil
	case "lock":
		return errors.New("use -e off-cpu, which includes waits for locks: their samples have the label wait=lock")
	case "cycles", "instructions", "cache-misses", "branch-misses", "cpu-cycles":
		return errors.New("Headwater does not use hardware counters: use -e cpu, which samples CPU time by a timer")
	case "minor-faults":
		return errors.New("use -e page-faults for all faults, or -e major-faults for faults that wait for a disk")
	case "alloc":
		return errors.New("use -e heap for allocations in use, or -e page-faults for the first touches of memory")
	case "context-switches", "cs":
		return e.setProbe("software:context-switches")
	}
	if group, _, ok := strings.Cut(text, ":"); ok {
		if _, isType := probe.Types()[group]; !isType && strings.Count(text, ":") == 1 {
			text = "tracepoint:" + text // perf's form: sched:sched_switch
		}
		return e.setProbe(text)
	}
	return fmt.Errorf("%q is unknown: want cpu, off-cpu, wall, page-faults, major-faults, heap, or a probe such as "+
		"%s", text, probe.Types()["uprobe"])
}

func (e *event) setProbe(link string) (err error) {
	if e.probe, err = probe.Parse(link); err != nil {
		return err
	}
	e.kind, err = kind.OfProbe(e.probe.Info())
	return err
}

// sampled returns the probe with the given period, or with its own period if period is 0. Without a probe it returns
// the zero Probe.
func (e *event) sampled(period uint64) probe.Probe {
	p := e.probe
	if p != (probe.Probe{}) && period > 0 {
		p.Period = period
	}
	return p
}

// events returns the names of events that need no argument.
func events() (names []string) {
	for k := range kind.Count {
		names = append(names, k.String())
	}
	return names
}

// String implements pflag.Value.
func (e *event) String() string { return e.kind.String() }

// Type implements pflag.Value.
func (e *event) Type() string { return "event" }
