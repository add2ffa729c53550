package ebpf

import (
	"maps"
	"slices"
	"time"

	"github.com/alecthomas/units"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/flame/demangle"
)

// Arguments configure pyroscope.ebpf.
type Arguments struct {
	ForwardTo []pyroscope.Appendable `river:"forward_to,attr"`
	Settings  Settings               `river:",squash"`
}

// SetToDefault implements river.Defaulter. River does not look for it in a squashed field.
func (a *Arguments) SetToDefault() {
	a.ForwardTo = nil
	a.Settings.SetToDefault()
}

// Validate implements river.Validator. Its errors are of type
// *component.AttributeError.
func (a *Arguments) Validate() error { return a.Settings.Validate() }

// Settings are the arguments except ForwardTo, whose type depends on the host: an adapter to another host, such as the
// Grafana Agent, squashes Settings into its own arguments. The attributes are the same as in Grafana Agent v0.36 to
// v0.40 and in Alloy, with the Agent's defaults: sample_rate is 97 and comm is "stackframe", while newer Alloy has 19
// and "none".
type Settings struct {
	Targets         []map[string]string `river:"targets,attr,optional"`
	DefaultTarget   map[string]string   `river:"default_target,attr,optional"`
	TargetsOnly     bool                `river:"targets_only,attr,optional"`
	CollectInterval time.Duration       `river:"collect_interval,attr,optional"`
	SampleRate      int                 `river:"sample_rate,attr,optional"`

	// CollectKernelProfile (Agent) and KernelFrames (Alloy) mean the same: kernel frames are collected unless one of
	// the two is false.
	CollectUserProfile   bool `river:"collect_user_profile,attr,optional"`
	CollectKernelProfile bool `river:"collect_kernel_profile,attr,optional"`
	KernelFrames         bool `river:"kernel_frames,attr,optional"`

	Demangle string `river:"demangle,attr,optional"` // none, simplified, templates or full
	Comm     string `river:"comm,attr,optional"`     // none, label, stackframe or both; "" is none

	// The labels of samples; all but pid_label are Headwater's own. The tag label has the name, see profile.LabelNames.
	PIDLabel        bool `river:"pid_label,attr,optional" label:"pid"`
	ThreadNameLabel bool `river:"thread_name_label,attr,optional" label:"thread_name"`
	ThreadIDLabel   bool `river:"thread_id_label,attr,optional" label:"thread_id"`
	CPULabel        bool `river:"cpu_label,attr,optional" label:"cpu"`
	NUMANodeLabel   bool `river:"numa_node_label,attr,optional" label:"numa_node"`

	// The switches of languages. The tag language has the name, see language.Language.
	PythonEnabled  bool `river:"python_enabled,attr,optional" language:"python"`
	HotspotEnabled bool `river:"hotspot_enabled,attr,optional" language:"java"`
	V8Enabled      bool `river:"v8_enabled,attr,optional" language:"V8"`

	FoldRuntimes bool `river:"fold_runtimes,attr,optional"` // Headwater's own argument

	ContainerIDCacheSize int `river:"container_id_cache_size,attr,optional"`

	// limit of kernel memory; Headwater's own argument
	UnwindTableMemory units.Base2Bytes `river:"unwind_table_memory,attr,optional"`

	// percent of one CPU that profiling may cost, 0 for no limit; Headwater's own argument
	OverheadLimit float64 `river:"overhead_limit,attr,optional"`

	// bytes that profiling may take, 0 for no limit; Headwater's own argument
	MemoryLimit units.Base2Bytes `river:"memory_limit,attr,optional"`

	// bytes that the history of the page may take on disk, 0 to keep none on disk; Headwater's own argument
	HistoryDiskLimit units.Base2Bytes `river:"history_disk_limit,attr,optional"`

	InlineFrames bool                 `river:"inline_frames,attr,optional"` // Headwater's own argument
	Debuginfod   *DebuginfodArguments `river:"debuginfod,block,optional"`   // Headwater's own block
	PageFaults   *PageFaultsArguments `river:"page_faults,block,optional"`  // Headwater's own block
	Heap         *HeapArguments       `river:"heap,block,optional"`         // Headwater's own block

	OffCPU *OffCPUArguments `river:"off_cpu,block,optional"` // Headwater's own block

	OffCPUThreshold float64 `river:"off_cpu_threshold,attr,optional"` // Alloy's: 0 to 1, above 0 stands for off_cpu { }

	ProbeLinks  []string `river:"probe_links,attr,optional"`   // Alloy's, and value=, unit=, period= and name= after them
	UProbeLinks []string `river:"u_probe_links,attr,optional"` // Alloy's, deprecated: each without uprobe: before it

	Unused UnusedArguments `river:",squash"`
}

// SetToDefault implements river.Defaulter.
func (a *Settings) SetToDefault() {
	*a = Settings{
		TargetsOnly:          true,
		CollectInterval:      15 * time.Second,
		SampleRate:           ebpf.DefaultSampleRate,
		CollectUserProfile:   true,
		CollectKernelProfile: true,
		KernelFrames:         true,
		Demangle:             "none",
		Comm:                 string(ebpf.CommStackframe),
		ContainerIDCacheSize: ebpf.DefaultContainerIDCacheSize,
		UnwindTableMemory:    ebpf.DefaultTableBytes,
		InlineFrames:         true,
	}
	for _, on := range a.switches("language") {
		on.SetBool(true)
	}
}

// Validate implements river.Validator. Its errors are of type
// *component.AttributeError.
func (a *Settings) Validate() error {
	switch {
	case a.CollectInterval <= 0:
		return component.Refuse("collect_interval", "must be longer than 0s, got %s", a.CollectInterval)
	case a.SampleRate < ebpf.MinSampleRate || a.SampleRate > ebpf.MaxSampleRate:
		return component.Refuse("sample_rate", "must be between %d and %d samples per second, got %d", ebpf.MinSampleRate,
			ebpf.MaxSampleRate, a.SampleRate)
	case a.ContainerIDCacheSize <= 0:
		return component.Refuse("container_id_cache_size", "must be greater than 0, got %d", a.ContainerIDCacheSize)
	case a.UnwindTableMemory < ebpf.MinTableBytes:
		return component.Refuse("unwind_table_memory", "must be at least %s, got %s", units.Base2Bytes(ebpf.MinTableBytes),
			a.UnwindTableMemory)
	case !(a.OverheadLimit == 0 || a.OverheadLimit >= leastLimit && a.OverheadLimit <= mostLimit):
		return component.Refuse("overhead_limit", "must be 0 (no limit) or between %g and %g percent of one CPU, got %g",
			leastLimit, mostLimit, a.OverheadLimit)
	case a.MemoryLimit != 0 && a.MemoryLimit < leastMemory:
		return component.Refuse("memory_limit", "must be 0B (no limit) or at least %s, got %s", units.Base2Bytes(leastMemory),
			a.MemoryLimit)
	case a.HistoryDiskLimit != 0 && a.HistoryDiskLimit < leastHistoryDisk:
		return component.Refuse("history_disk_limit", "must be 0B (no history on disk) or at least %s, got %s",
			units.Base2Bytes(leastHistoryDisk), a.HistoryDiskLimit)
	}
	if err := pyroscope.CheckTargets("targets", a.Targets); err != nil {
		return err
	}
	if err := pyroscope.CheckTargets("default_target", []map[string]string{a.DefaultTarget}); err != nil {
		return err
	}
	if a.OffCPUThreshold < 0 {
		return component.Refuse("off_cpu_threshold", "must not be negative, got %v", a.OffCPUThreshold)
	}
	if err := a.PageFaults.validate(); err != nil {
		return err
	}
	if err := a.Heap.validate(); err != nil {
		return err
	}
	if err := a.OffCPU.validate(); err != nil {
		return err
	}
	if err := a.validateProbes(); err != nil {
		return err
	}
	if err := a.Debuginfod.options().Validate(); err != nil {
		return component.Refuse("debuginfod", "is invalid: %v", err)
	}
	if _, err := a.demangleMode(); err != nil {
		return component.Refuse("demangle", "must be one of none, simplified, templates, full, got %q", a.Demangle)
	}
	switch a.commMode() {
	case ebpf.CommNone, ebpf.CommLabel, ebpf.CommStackframe, ebpf.CommBoth:
		return nil
	default:
		return component.Refuse("comm", "must be one of none, label, stackframe, both, got %q", a.Comm)
	}
}

func (a *Settings) commMode() ebpf.CommMode {
	if a.Comm == "" {
		return ebpf.CommNone
	}
	return ebpf.CommMode(a.Comm)
}

func (a *Settings) demangleMode() (demangle.Mode, error) {
	if a.Demangle == "" {
		return demangle.None, nil
	}
	return demangle.Parse(a.Demangle)
}

// options converts valid settings to the profiler's options.
func (a *Settings) options() ebpf.Options {
	mode, err := a.demangleMode()
	if err != nil {
		mode = demangle.None // cannot happen: Validate has checked it
	}
	var o ebpf.Options
	o.SampleRate = a.SampleRate
	o.Periods = a.PageFaults.periods()
	a.OffCPU.apply(&o, min(a.OffCPUThreshold, 1))
	o.Probes = a.probes()
	o.HeapBytes, o.HeapLimit = a.Heap.bytes(), a.Heap.limit()
	o.Targets = slices.Clone(a.Targets)
	o.DefaultTarget = maps.Clone(a.DefaultTarget)
	o.TargetsOnly = a.TargetsOnly
	o.ContainerIDCacheSize = a.ContainerIDCacheSize
	o.NoUserStacks = !a.CollectUserProfile
	o.NoKernelStacks = !a.CollectKernelProfile || !a.KernelFrames
	o.Comm = a.commMode()
	o.Labels = a.sampleLabels()
	o.Demangle = mode
	o.TableBytes = int(a.UnwindTableMemory)
	o.NoInlinedFrames = !a.InlineFrames
	o.FoldRuntimes = a.FoldRuntimes
	o.LanguagesOff = a.languagesOff()
	o.Debuginfod = a.Debuginfod.options()
	return o
}
