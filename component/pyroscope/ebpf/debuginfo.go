package ebpf

import (
	"cmp"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/server"
)

// DebugInfo is what the component reports about itself in River.
type DebugInfo struct {
	Targets []string          `river:"targets,attr,optional"`  // label sets of the usable targets
	Process []DebugProcess    `river:"process,block,optional"` // the target of each; processes with a target first
	Session DebugSession      `river:"session,block,optional"`
	Ended   []DebugIncomplete `river:"incomplete,block,optional"` // most samples first
	Unnamed []DebugUnnamed    `river:"unnamed,block,optional"`    // most frames first

	Language []DebugLanguage `river:"language,block,optional"` // most frames first
	Build    []DebugBuild    `river:"build,block,optional"`    // newest first
	History  *DebugHistory   `river:"history,block,optional"`  // on disk
}

// DebugSession are the profiler's figures as of the last round of collecting; counters count from the start of the
// component. Attributes that occur in the table of counters get their values from it.
type DebugSession struct {
	Started          time.Time         `river:"started,attr,optional"`
	SampleRate       int               `river:"sample_rate,attr,optional"`
	RateCurrent      int               `river:"sample_rate_current,attr,optional"` // lower with overhead_limit
	Overhead         string            `river:"overhead,attr,optional"`            // cost of the last round
	Memory           int64             `river:"memory_bytes,attr,optional"`        // of the process and of unwind tables
	BPFTime          uint64            `river:"bpf_microseconds,attr,optional"`
	Rounds           uint64            `river:"rounds,attr,optional"`
	Expected         uint64            `river:"samples_expected,attr,optional"`
	Delivered        uint64            `river:"samples_delivered,attr,optional"`
	Idle             uint64            `river:"samples_idle,attr,optional"`
	Ignored          uint64            `river:"samples_ignored,attr,optional"`
	Lost             map[string]uint64 `river:"samples_lost,attr,optional"`  // by reason
	EventSamples     uint64            `river:"event_samples,attr,optional"` // of page faults
	EventSamplesLost uint64            `river:"event_samples_lost,attr,optional"`
	OffCPUPasses     uint64            `river:"off_cpu_passes,attr,optional"`
	OffCPUThreads    uint64            `river:"off_cpu_threads,attr,optional"` // at the last pass
	OffCPURead       uint64            `river:"off_cpu_stacks_read,attr,optional"`
	OffCPUMoved      uint64            `river:"off_cpu_stacks_moved,attr,optional"`
	OffCPUUnread     uint64            `river:"off_cpu_stacks_not_read,attr,optional"`
	OffCPUWakers     uint64            `river:"off_cpu_wakers,attr,optional"`
	OffCPUWakersLost uint64            `river:"off_cpu_wakers_lost,attr,optional"`
	OffCPUTime       map[string]uint64 `river:"off_cpu_thread_nanoseconds,attr,optional"` // by state
	ProbesAttached   uint64            `river:"probes_attached,attr,optional"`
	ProbesFailed     uint64            `river:"probes_failed,attr,optional"`
	ProbeSamples     uint64            `river:"probe_samples,attr,optional"`
	ProbeDropped     uint64            `river:"probe_values_dropped,attr,optional"`
	ProbeSamplesLost uint64            `river:"probe_samples_lost,attr,optional"`
	ProbeLostOf      map[string]uint64 `river:"probe_samples_lost_of,attr,optional"` // by service_name
	HeapFiles        uint64            `river:"heap_files,attr,optional"`            // with an allocator
	HeapFilesFailed  uint64            `river:"heap_files_failed,attr,optional"`
	HeapPaused       uint64            `river:"heap_processes_paused,attr,optional"`
	HeapBlocks       uint64            `river:"heap_blocks,attr,optional"` // in use, and sampled
	HeapBytes        uint64            `river:"heap_bytes,attr,optional"`
	HeapSamples      uint64            `river:"heap_samples,attr,optional"`
	HeapMissed       map[string]uint64 `river:"heap_missed,attr,optional"` // by reason
	Records          uint64            `river:"side_band_lost,attr,optional"`
	Outcomes         map[string]uint64 `river:"outcomes,attr,optional"`

	ProfilesLost map[string]uint64 `river:"profiles_lost,attr,optional"` // that a receiver did not get, by reason

	// Errors that cost names or stacks but do not stop the profiler, with their number.
	Errors map[string]uint64 `river:"errors,attr,optional"`
	// LimitHits counts by reader how often data from other programs exceeded a bound.
	LimitHits map[string]uint64 `river:"limit_hits,attr,optional"`

	Processes   uint64            `river:"processes,attr,optional"`
	Executables uint64            `river:"executables,attr,optional"`
	Pages       uint64            `river:"unwind_pages,attr,optional"`
	TableBytes  uint64            `river:"unwind_table_bytes,attr,optional"`
	Evicted     uint64            `river:"unwind_pages_evicted,attr,optional"`
	Copies      uint64            `river:"stacks_copied,attr,optional"`
	FilesLate   uint64            `river:"files_late,attr,optional"`
	Hanging     uint64            `river:"files_hanging,attr,optional"`
	Overdue     uint64            `river:"rounds_overdue,attr,optional"`
	Chains      map[string]uint64 `river:"interpreter_chains,attr,optional"` // by how they ended
	Runtime     map[string]uint64 `river:"runtime_frames,attr,optional"`     // by language
	Unnamed     map[string]uint64 `river:"runtime_frames_unnamed,attr,optional"`
	Unplaced    uint64            `river:"interpreter_chains_unplaced,attr,optional"`
	SymbolBytes uint64            `river:"symbol_table_bytes,attr,optional"`
	JITBytes    uint64            `river:"jit_names_bytes,attr,optional"`
	JITDropped  uint64            `river:"jit_functions_dropped,attr,optional"`
}

// setFigures sets the attributes that occur in the table of counters.
func (d *DebugSession) setFigures(f *figures) {
	for _, row := range counters() {
		field, ok := d.attribute(row.Debug)
		switch {
		case !ok: // not shown
		case row.Many != nil:
			field.Set(reflect.ValueOf(*row.Many(f)))
		default:
			field.SetUint(*row.One(f))
		}
	}
}

// attribute returns the field for an attribute.
func (d *DebugSession) attribute(name string) (field reflect.Value, ok bool) {
	v := reflect.ValueOf(d).Elem()
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("river"), ","); tag == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// DebugIncomplete counts the incomplete stacks that ended in one binary.
type DebugIncomplete struct {
	File    string `river:"file,attr,optional"`
	BuildID string `river:"build_id,attr,optional"`
	Outcome string `river:"outcome,attr"`
	Samples uint64 `river:"samples,attr"`
}

// DebugUnnamed counts the frames in one binary for which no function name was found, and gives the reason.
type DebugUnnamed struct {
	File    string `river:"file,attr,optional"`
	BuildID string `river:"build_id,attr,optional"`
	Reason  string `river:"reason,attr"`
	Detail  string `river:"detail,attr,optional"`
	Frames  uint64 `river:"frames,attr"`
}

// DebugLanguage counts the frames of one language runtime, and says why some have no names.
type DebugLanguage struct {
	Name     string `river:"name,attr"` // with the version
	Named    uint64 `river:"named,attr"`
	NotRead  uint64 `river:"not_read,attr"`  // their functions could not be read from the process
	NotNamed uint64 `river:"not_named,attr"` // functions of this language or version are not supported
	Hint     string `river:"hint,attr,optional"`
}

// DebugInfo implements component.DebugComponent.
func (c *Component) DebugInfo() interface{} {
	state := c.status.readStatus()
	f := c.metrics.snapshot()
	maps.DeleteFunc(f.lost, func(_ string, profiles uint64) bool { return profiles == 0 })
	info := DebugInfo{
		Targets: state.targets,
		Process: debugProcesses(state.args),
		Session: DebugSession{
			Started: state.started, SampleRate: state.args.SampleRate, RateCurrent: state.rate,
			Memory: state.memory,
		},
	}
	if state.cost != (cost{}) {
		info.Session.Overhead = state.cost.String()
	}
	info.Session.setFigures(&f)
	for _, b := range f.session.Binaries {
		info.Ended = append(info.Ended, DebugIncomplete(b))
	}
	for _, u := range f.session.Unnamed {
		info.Unnamed = append(info.Unnamed, DebugUnnamed{
			File: u.File, BuildID: u.BuildID, Reason: u.Reason, Detail: u.Explain(), Frames: u.Frames,
		})
	}
	for _, l := range f.session.Languages {
		info.Language = append(info.Language, DebugLanguage(l))
	}
	changes, _ := c.page.Changes()
	info.Build = debugBuilds(changes)
	info.History = c.debugHistory()
	return info
}

// pageStatus describes the component for its page.
func (c *Component) pageStatus() server.Status {
	state, health := c.status.readStatus(), c.CurrentHealth()
	args := state.args
	mode := args.commMode()
	stats := c.metrics.snapshot().session
	status := server.Status{
		Healthy:    health.Health != component.HealthTypeUnhealthy && health.Health != component.HealthTypeExited,
		Message:    health.Message,
		SampleRate: cmp.Or(state.rate, args.SampleRate), Interval: args.CollectInterval,
		Targets: len(state.targets), TargetsOnly: args.TargetsOnly,
		Processes: stats.Processes, Executables: stats.Executables,
		Expected: stats.Expected, Delivered: stats.Delivered, Ignored: stats.Ignored, Lost: stats.Lost,
		ByName: mode != ebpf.CommNone, ByPID: args.PIDLabel,
	}
	if mode == ebpf.CommLabel || mode == ebpf.CommBoth {
		status.SampleLabels = append(status.SampleLabels, "comm")
	}
	status.SampleLabels = append(status.SampleLabels, args.sampleLabels()...)
	for o := range unwind.Switched + 1 {
		status.Outcomes = append(status.Outcomes, server.Outcome{
			Name: o.String(), Text: o.Explain(), Good: o.NothingMissing(), Samples: stats.Outcomes[o.String()],
		})
	}
	for _, b := range stats.Binaries {
		status.Incomplete = append(status.Incomplete,
			server.Incomplete{File: b.File, Outcome: b.Outcome, Samples: b.Samples})
	}
	for _, l := range stats.Languages {
		status.Languages = append(status.Languages,
			server.Language{Name: l.Name, Named: l.Named, Unnamed: l.Unnamed(), NotRead: l.NotRead, Hint: l.Hint})
	}
	return status
}

// shownProfile prepares a profile for the page.
func shownProfile(p ebpf.Profile, raw []byte) server.Profile {
	shown := server.Profile{
		Labels: p.Labels, Data: raw, Samples: p.Samples, WithUser: p.WithUser, Complete: p.Complete,
		Kind: p.Kind.String(), Pprof: p.Pprof,
	}
	values := kind.Of(p.Kind).Values
	last := values[len(values)-1]
	shown.Period, shown.Unit = p.Pprof.Period*last.Per, last.Unit
	if p.Kind != kind.CPU { // all kinds belong to one target of the page
		shown.Labels = maps.Clone(p.Labels)
		shown.Labels[target.LabelName] = target.DefaultName
	}
	for _, process := range p.Processes {
		process.Value *= uint64(last.Per)
		shown.Processes = append(shown.Processes, server.Process(process))
	}
	return shown
}
