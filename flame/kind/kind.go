// Package kind defines the kinds of samples: CPU time, waiting, page faults, memory and probes. The table here is the
// only place with the names, types and units of a kind. A sample carries its kind from the kernel to its profile.
package kind

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Kind is the kind of a sample. The zero value is CPU. Kinds from Count on are kinds of probes, see OfProbe.
type Kind uint16

// The kinds. bpf/abi/samples.h has the numbers of the kinds that BPF programs write.
const (
	CPU         Kind = iota // time on a CPU
	OffCPU                  // time of threads that do not run
	PageFaults              // memory that a thread touches and the kernel must first provide
	MajorFaults             // page faults that wait for a disk
	Wall                    // CPU and OffCPU: all time of threads; only commands record it
	Heap                    // memory that a program has allocated and not freed
	Count                   // number of kinds
)

// Value is a value of samples, with pprof's names.
type Value struct {
	Type string
	Unit string
	// Per is the number of units in one unit of the kind's first value, such as bytes in a page.
	Per int64
}

// Info describes a kind.
type Info struct {
	Name   string  // name in flags, configurations and URLs of the page
	Series string  // __name__ of its profiles, the first part of their type in Pyroscope
	Values []Value // values of samples: the first is measured, and tools show the last one by default
	Title  string  // description of the values for people
	Period uint64  // for events: default number of events per sample; for memory: default bytes per sample; else 0
}

// Of returns the description of a kind. For the kind of a probe it is the Info passed to OfProbe. A kind that does not
// exist is described by its number.
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
	if probe, ok := probes.infoOf(k); ok {
		return probe
	}
	name := fmt.Sprintf("kind-%d", k)
	return Info{name, strings.ReplaceAll(name, "-", "_"), []Value{{"samples", "count", 1}}, name, 0}
}

// String returns the name of a kind.
func (k Kind) String() string { return Of(k).Name }

// ByName returns the kind with a name.
func ByName(name string) (Kind, bool) {
	for k := range Count {
		if Of(k).Name == name {
			return k, true
		}
	}
	return probes.byName(name)
}

// ByValue returns the kind whose samples have values of a type. It does not find kinds of probes.
func ByValue(valueType string) (Kind, bool) {
	for k := range Count {
		if slices.ContainsFunc(Of(k).Values, func(v Value) bool { return v.Type == valueType }) {
			return k, true
		}
	}
	return 0, false
}

// PeriodType returns the type of a profile's period. For memory in use it has the same name as in Go's profiles.
func (k Kind) PeriodType() Value {
	if k == Heap {
		return Value{"space", "bytes", 1}
	}
	return Of(k).Values[0]
}

// IsSnapshot reports whether a profile shows the state at its end, and not the changes since the previous profile.
// Snapshots of an interval do not add up.
func (k Kind) IsSnapshot() bool { return k == Heap }

// IsPeriodic reports whether each sample has the period of its profile as its value. The value of a sample of time off
// CPU is the length of the wait, and the value of a sample of memory is the size of the allocation.
func (k Kind) IsPeriodic() bool { return k != OffCPU && k != Wall && k != Heap }

// IsTime reports whether the first value is a time, in nanoseconds.
func (i Info) IsTime() bool { return i.Values[0].Unit == "nanoseconds" }
