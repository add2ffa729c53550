// Package kind defines what samples can be of: CPU time, waiting, page faults, probes. The table here is the one place
// that has names, types and units of a kind; what a sample's kind is goes with it from the kernel to its profile.
package kind

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Kind is what a sample is of. The zero value is CPU. Kinds from Count on are of probes, see Of.
type Kind uint16

// The kinds. bpf/abi.h has the numbers of those that its programs write.
const (
	CPU         Kind = iota // time on a CPU
	OffCPU                  // time of threads that do not run
	PageFaults              // memory that a thread touches, and the kernel has to give or find
	MajorFaults             // page faults that wait for a disk
	Wall                    // CPU and OffCPU: all time of threads. Commands record it
	Heap                    // memory that a program has allocated and not freed
	Count                   // how many there are
)

// Value is one of the values of samples, as pprof names it.
type Value struct {
	Type string
	Unit string
	// Per is how many of it are in one of the kind's first value: bytes in a page, for example.
	Per int64
}

// Info describes a kind.
type Info struct {
	Name   string  // in flags, configurations and addresses of the page
	Series string  // __name__ of its profiles, which is the first part of their type in Pyroscope
	Values []Value // of samples. What is measured is the first; tools show the last unless they are told otherwise
	Title  string  // for people: what the values are of
	Period uint64  // of kinds that are events: after how many one is sampled, unless somebody says otherwise; else 0
}

// Of returns the description of a kind, of a probe's as OfProbe got it. Kinds that do not exist are described as their
// number.
func Of(k Kind) Info {
	page := int64(os.Getpagesize())
	switch k {
	case CPU:
		return Info{"cpu", "process_cpu", []Value{{"cpu", "nanoseconds", 1}}, "CPU time", 0}
	case OffCPU:
		return Info{"off-cpu", "offcpu", []Value{{"offcpu", "nanoseconds", 1}}, "time off CPU", 0}
	case PageFaults:
		return Info{"page-faults", "page_faults", []Value{{"faults", "count", 1}, {"space", "bytes", page}},
			"memory touched, by page faults", 256}
	case MajorFaults:
		return Info{"major-faults", "major_faults", []Value{{"faults", "count", 1}},
			"page faults that waited for a disk", 1}
	case Wall:
		return Info{"wall", "wall", []Value{{"wall", "nanoseconds", 1}}, "time on a CPU and off", 0}
	case Heap:
		return Info{"heap", "memory", []Value{{"inuse_space", "bytes", 1}}, "memory in use", 512 << 10}
	}
	if probe, ok := probes.info(k); ok {
		return probe
	}
	name := fmt.Sprintf("kind-%d", k)
	return Info{name, strings.ReplaceAll(name, "-", "_"), []Value{{"samples", "count", 1}}, name, 0}
}

// String returns the name of a kind.
func (k Kind) String() string { return Of(k).Name }

// ByName returns the kind of a name.
func ByName(name string) (Kind, bool) {
	for k := range Count {
		if Of(k).Name == name {
			return k, true
		}
	}
	return probes.byName(name)
}

// ByValue returns the kind, other than a probe's, whose samples have values of a type.
func ByValue(valueType string) (Kind, bool) {
	for k := range Count {
		if slices.ContainsFunc(Of(k).Values, func(v Value) bool { return v.Type == valueType }) {
			return k, true
		}
	}
	return 0, false
}

// PeriodType returns what a profile's period counts. Of memory in use that has the name that Go's profiles give it.
func (k Kind) PeriodType() Value {
	if k == Heap {
		return Value{"space", "bytes", 1}
	}
	return Of(k).Values[0]
}

// IsSnapshot reports whether a profile is of what there is at its end, and not of what came since the one before: those
// of an interval do not add up.
func (k Kind) IsSnapshot() bool { return k == Heap }

// IsPeriodic reports whether each sample stands for the period of its profile. A sample of time off CPU stands for as
// long as its thread waited, a sample of memory for the bytes that were allocated.
func (k Kind) IsPeriodic() bool { return k != OffCPU && k != Wall && k != Heap }

// IsTime reports whether the first value is a time, in nanoseconds.
func (i Info) IsTime() bool { return i.Values[0].Unit == "nanoseconds" }
