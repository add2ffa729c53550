// Package profile makes pprof profiles of samples: a Builder counts equal stacks of each
// target until somebody asks for profiles, and only then names their frames.
package profile

import (
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/ebpf/unwind"
)

// CommMode says where a process's name (its comm) goes in the profile.
type CommMode string

// The places for a process's name.
const (
	CommNone       CommMode = "none"       // nowhere
	CommLabel      CommMode = "label"      // a sample label "comm"
	CommStackframe CommMode = "stackframe" // the root frame of every stack
	CommBoth       CommMode = "both"       // label and root frame
)

// inFrames reports whether the name is the root frame.
func (m CommMode) inFrames() bool { return m == CommStackframe || m == CommBoth }

// inLabels reports whether the name is a sample label.
func (m CommMode) inLabels() bool { return m == CommLabel || m == CommBoth }

// Options say what profiles hold and how frames are named.
type Options struct {
	SampleRate int // samples per second and CPU: what one sample of CPU time stands for
	// Periods are what a sample of another kind stands for, in the unit of the first value of the kind; 0: no samples of
	// the kind are taken, or each says what it stands for.
	Periods         [kind.Count]int64
	Comm            CommMode            // where the process name goes
	PIDLabel        bool                // add a sample label "pid"
	ThreadNameLabel bool                // add a sample label "thread_name"
	ThreadIDLabel   bool                // add a sample label "thread_id"
	CPULabel        bool                // add a sample label "cpu"
	NUMANodeLabel   bool                // add a sample label "numa_node", of the CPU; none if that is not known
	NoStateLabel    bool                // of samples off CPU: leave out the label LabelState
	NoWaitLabel     bool                // and LabelWait
	Timestamps      bool                // keep when each sample was taken, see pprof.Timestamp; memory grows with them
	Demangle        symbol.DemangleMode // how C++ and Rust names are shown
	InlineFrames    bool                // show functions that were inlined into others
	Python          bool                // show functions of Python
	Hotspot         bool                // name the methods that Java VMs run
	V8              bool                // show functions of JavaScript
	FoldRuntimes    bool                // leave out native frames of a runtime in stacks with functions of its language
	SymbolBytes     int                 // limit of the memory for symbol tables; 0: symbol.DefaultTableBytes
	Debuginfod      debuginfod.Options  // where to fetch missing debug files; without URLs from nowhere
}

// period returns what a sample of a kind stands for that does not say, in the unit of the kind's first value.
func (o *Options) period(k kind.Kind) int64 {
	if k == kind.CPU {
		return int64(time.Second) / int64(max(1, o.SampleRate))
	}
	if k >= kind.Count {
		return int64(kind.Of(k).Period)
	}
	return o.Periods[k]
}

// frames returns the user frames of a sample that are to be shown.
func (o *Options) frames(s *sampler.Sample) []kernel.Frame {
	shown := true
	switch s.Language {
	case process.Python:
		shown = o.Python
	case process.V8:
		shown = o.V8
	case process.Java:
		shown = o.Hotspot
	}
	if !shown {
		return s.User
	}
	return s.Frames()
}

// foldRuntime appends to out the frames without those in the file of the process's runtime, if some of them are of the
// runtime's language. What the runtime itself did is then counted for the function that it did it for.
func foldRuntime(out, frames []kernel.Frame, file unwind.ExeID) []kernel.Frame {
	language := func(f kernel.Frame) bool { return f.Flags&kernel.Interpreted != 0 || f.Code != 0 }
	if file == 0 || !slices.ContainsFunc(frames, language) {
		return append(out, frames...)
	}
	for _, f := range frames {
		if f.Exe != file || language(f) {
			out = append(out, f)
		}
	}
	return out
}

// Profile is what samples of one kind show of one target between two calls of Collect, or until the options
// changed: all of it, however much that is.
type Profile struct {
	Labels map[string]string // the target's labels, __name__ and service_name among them
	Kind   kind.Kind
	Pprof  *profile.Profile // owned by the caller

	Samples   uint64    // samples in this profile
	WithUser  uint64    // samples that should have a user part
	Complete  uint64    // samples whose user part reaches the outermost frame
	Processes []Process // most samples first
}

// Process is one process's share of a Profile.
type Process struct {
	PID      uint32
	Comm     string
	Program  string // path of the file that it runs, as the process sees it; "" if not known
	Build    string // see process.Executable.Version
	Samples  uint64
	WithUser uint64
	Complete uint64
	Value    uint64 // of its samples, in the unit of the kind's first value
}
