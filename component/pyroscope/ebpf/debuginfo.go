package ebpf

import (
	"time"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope/ebpf/flamegraph"
	"github.com/headwater/headwater/ebpf"
)

// DebugInfo is what the component tells about itself in River.
type DebugInfo struct {
	Targets []string          `river:"targets,attr,optional"`  // label sets of the usable targets
	Process []DebugProcess    `river:"process,block,optional"` // which target each has; those that match one first
	Session DebugSession      `river:"session,block,optional"`
	Ended   []DebugIncomplete `river:"incomplete,block,optional"` // most samples first
	Unnamed []DebugUnnamed    `river:"unnamed,block,optional"`    // most frames first
}

// DebugSession are the profiler's figures as of the last round of collecting;
// counters are since the component began.
type DebugSession struct {
	Started    time.Time         `river:"started,attr,optional"`
	SampleRate int               `river:"sample_rate,attr,optional"`
	Rounds     uint64            `river:"rounds,attr,optional"`
	Expected   uint64            `river:"samples_expected,attr,optional"`
	Delivered  uint64            `river:"samples_delivered,attr,optional"`
	Idle       uint64            `river:"samples_idle,attr,optional"`
	Ignored    uint64            `river:"samples_ignored,attr,optional"`
	Lost       uint64            `river:"samples_lost,attr,optional"`
	Outcomes   map[string]uint64 `river:"outcomes,attr,optional"`

	// Errors that cost names or stacks but stop nothing, and how often each came.
	Errors map[string]uint64 `river:"errors,attr,optional"`

	Processes   int    `river:"processes,attr,optional"`
	Executables int    `river:"executables,attr,optional"`
	Pages       int    `river:"unwind_pages,attr,optional"`
	TableBytes  uint64 `river:"unwind_table_bytes,attr,optional"`
	Evicted     uint64 `river:"unwind_pages_evicted,attr,optional"`
	Copies      uint64 `river:"stacks_copied,attr,optional"`
}

// DebugIncomplete counts the incomplete stacks that ended in one binary.
type DebugIncomplete struct {
	File    string `river:"file,attr,optional"`
	BuildID string `river:"build_id,attr,optional"`
	Outcome string `river:"outcome,attr"`
	Samples uint64 `river:"samples,attr"`
}

// DebugUnnamed counts the frames in one binary that have no function's name, and
// says why.
type DebugUnnamed struct {
	File    string `river:"file,attr,optional"`
	BuildID string `river:"build_id,attr,optional"`
	Reason  string `river:"reason,attr"`
	Detail  string `river:"detail,attr,optional"`
	Frames  uint64 `river:"frames,attr"`
}

// DebugInfo implements component.DebugComponent.
func (c *Component) DebugInfo() interface{} {
	c.mu.Lock()
	args, state := c.args, c.state
	c.mu.Unlock()

	s := state.stats
	info := DebugInfo{
		Targets: state.targets,
		Process: debugProcesses(args),
		Session: DebugSession{
			Started: state.started, SampleRate: args.SampleRate, Rounds: state.rounds,
			Expected: s.Expected, Delivered: s.Delivered, Idle: s.Idle, Ignored: s.Ignored, Lost: s.Lost, Outcomes: s.Outcomes, Errors: s.Errors,
			Processes: s.Processes, Executables: s.Executables, Pages: s.Pages, TableBytes: s.TableBytes, Evicted: s.PagesEvicted, Copies: s.Copies,
		},
	}
	for _, b := range s.Binaries {
		info.Ended = append(info.Ended, DebugIncomplete(b))
	}
	for _, u := range s.Unnamed {
		info.Unnamed = append(info.Unnamed, DebugUnnamed{File: u.File, BuildID: u.BuildID, Reason: u.Reason, Detail: u.Explain(), Frames: u.Frames})
	}
	return info
}

// pageStatus describes the component for its page.
func (c *Component) pageStatus() flamegraph.Status {
	c.mu.Lock()
	args, state, health := c.args, c.state, c.health
	c.mu.Unlock()

	s := state.stats
	mode := args.commMode()
	inLabels := mode == ebpf.CommLabel || mode == ebpf.CommBoth
	status := flamegraph.Status{
		Healthy:    health.Health != component.HealthTypeUnhealthy && health.Health != component.HealthTypeExited,
		Message:    health.Message,
		SampleRate: args.SampleRate, Interval: args.CollectInterval,
		Targets: len(state.targets), TargetsOnly: args.TargetsOnly,
		Processes: s.Processes, Executables: s.Executables,
		Expected: s.Expected, Delivered: s.Delivered, Idle: s.Idle, Ignored: s.Ignored, Lost: s.Lost,
		Outcomes: s.Outcomes,
		ByName:   mode != ebpf.CommNone, ByPID: args.PIDLabel,
	}
	for _, b := range s.Binaries[:min(len(s.Binaries), 15)] {
		status.Incomplete = append(status.Incomplete, flamegraph.Incomplete{File: b.File, Outcome: b.Outcome, Samples: b.Samples})
	}
	if inLabels {
		status.SampleLabels = append(status.SampleLabels, "comm")
	}
	if args.PIDLabel {
		status.SampleLabels = append(status.SampleLabels, "pid")
	}
	return status
}

// shownProfile prepares a profile for the page.
func shownProfile(p ebpf.Profile, raw []byte) flamegraph.Profile {
	shown := flamegraph.Profile{Labels: p.Labels, Data: raw, Samples: p.Samples, WithUser: p.WithUser, Complete: p.Complete}
	for _, process := range p.Processes {
		shown.Processes = append(shown.Processes, flamegraph.Process(process))
	}
	return shown
}
