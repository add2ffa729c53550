// Package profile makes pprof profiles of samples: a Builder counts equal stacks of each
// target until somebody asks for profiles, and only then names their frames.
package profile

import (
	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
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
	SampleRate      int                 // samples per second and CPU: what one sample stands for
	Comm            CommMode            // where the process name goes
	PIDLabel        bool                // add a sample label "pid"
	ThreadNameLabel bool                // add a sample label "thread_name"
	ThreadIDLabel   bool                // add a sample label "thread_id"
	Demangle        symbol.DemangleMode // how C++ and Rust names are shown
	InlineFrames    bool                // show functions that were inlined into others
	Python          bool                // show functions of Python
	Hotspot         bool                // name the methods that Java VMs run
	V8              bool                // show functions of JavaScript
	Debuginfod      debuginfod.Options  // where to fetch missing debug files; without URLs from nowhere
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

// Profile is what one target did between two calls of Collect, or until the options
// changed: all of it, however much that is.
type Profile struct {
	Labels map[string]string // the target's labels, __name__ and service_name among them
	Pprof  *profile.Profile  // owned by the caller

	Samples   uint64    // samples in this profile
	WithUser  uint64    // samples that should have a user part
	Complete  uint64    // samples whose user part reaches the outermost frame
	Processes []Process // most samples first
}

// Process is one process's share of a Profile.
type Process struct {
	PID      uint32
	Comm     string
	Samples  uint64
	WithUser uint64
	Complete uint64
}
