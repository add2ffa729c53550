// Package profile makes pprof profiles of samples: a Builder counts equal stacks of each target, and names their frames
// only when it collects profiles.
package profile

import (
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/demangle"
	"github.com/headwater/headwater/flame/kind"
)

// CommMode is the place of a process's name (its comm) in a profile.
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

// Options set the contents of profiles and how frames are named.
type Options struct {
	SampleRate int // samples per second and CPU; sets the CPU time of a sample
	// Periods are the values of a sample of the other kinds, in the unit of the first value of the kind; 0 if the kind
	// is not sampled, or its samples have their own values.
	Periods         [kind.Count]int64
	Comm            CommMode           // where the process name goes
	Labels          []string           // labels that samples get, see LabelNames
	NoStateLabel    bool               // for samples off CPU: omit the label LabelState
	NoWaitLabel     bool               // for samples off CPU: omit the label LabelWait
	Timestamps      bool               // keep the time of each sample, see pprof.Timestamp; memory grows with them
	Demangle        demangle.Mode      // how C++ and Rust names are shown
	NoInlinedFrames bool               // omit inlined functions
	LanguagesOff    map[string]bool    // omit functions of the languages with these names, see language.Language
	FoldRuntimes    bool               // omit native frames of a runtime in stacks with functions of its language
	SymbolBytes     int                // limit of the memory for symbol tables; 0 for symbol.DefaultTableBytes
	Debuginfod      debuginfod.Options // servers of missing debug files; none without URLs
}

// period returns the value of a sample without its own value, in the unit of the kind's first value.
func (o *Options) period(k kind.Kind) int64 {
	if k == kind.CPU {
		return int64(time.Second) / int64(max(1, o.SampleRate))
	}
	if k >= kind.Count {
		return int64(kind.Of(k).Period)
	}
	return o.Periods[k]
}

// frames returns the user frames to show for a sample.
func (o *Options) frames(s *sampler.Sample) []kernel.Frame {
	if o.LanguagesOff[s.Language] {
		return s.User
	}
	return s.Frames()
}

// foldRuntime appends frames to out. If any frame is of the runtime's language, it omits the native frames in the
// runtime's file, so that their samples count for the function that the runtime worked for.
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

// Profile holds all samples of one kind of one target between two calls of Collect, or until the options changed.
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
	Program  string // path of its executable, as the process sees it; "" if unknown
	Build    string // see process.Executable.Version
	Samples  uint64
	WithUser uint64
	Complete uint64
	Value    uint64 // sum of its samples, in the unit of the kind's first value
}
