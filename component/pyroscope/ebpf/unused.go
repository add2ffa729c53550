package ebpf

import (
	"fmt"

	"github.com/headwater/headwater/component"
)

// UnusedArguments are accepted so that a configuration written for the Agent or Alloy loads, but they have no effect. A
// nil field was not set.
type UnusedArguments struct {
	// Tuning of caches and tables that this profiler does not have.
	PIDCacheSize      *int `river:"pid_cache_size,attr,optional"`
	BuildIDCacheSize  *int `river:"build_id_cache_size,attr,optional"`
	SameFileCacheSize *int `river:"same_file_cache_size,attr,optional"`
	CacheRounds       *int `river:"cache_rounds,attr,optional"`
	SymbolsMapSize    *int `river:"symbols_map_size,attr,optional"`
	PIDMapSize        *int `river:"pid_map_size,attr,optional"`

	SymbCachePath *string `river:"symb_cache_path,attr,optional"`
	SymbCacheSize *int    `river:"symb_cache_size,attr,optional"`
	BPFFSRoot     *string `river:"bpf_fs_root,attr,optional"`

	// Interpreters and virtual machines.
	PerlEnabled   *bool `river:"perl_enabled,attr,optional"`
	PHPEnabled    *bool `river:"php_enabled,attr,optional"`
	RubyEnabled   *bool `river:"ruby_enabled,attr,optional"`
	DotnetEnabled *bool `river:"dotnet_enabled,attr,optional"`
	GoEnabled     *bool `river:"go_enabled,attr,optional"`

	// Other sources of samples.
	LoadProbe *bool `river:"load_probe,attr,optional"` // a program for other tools to call; probe_links needs none

	// Other behaviour.
	GoTableFallback           *bool `river:"go_table_fallback,attr,optional"`
	ReporterUnsymbolizedStubs *bool `river:"reporter_unsymbolized_stubs,attr,optional"`
	VerboseMode               *bool `river:"verbose_mode,attr,optional"`
	LazyMode                  *bool `river:"lazy_mode,attr,optional"`
	NoKernelVersionCheck      *bool `river:"no_kernel_version_check,attr,optional"`
	OBIProcessContextEnabled  *bool `river:"obi_process_context_enabled,attr,optional"`

	DebugInfoUpload *DebugInfoArguments `river:"debug_info,block,optional"`
}

// DebugInfoArguments are the block debug_info, Alloy's upload of debug information.
type DebugInfoArguments struct {
	OnTargetSymbolization *bool `river:"on_target_symbolization,attr,optional"`
	Upload                *bool `river:"upload,attr,optional"`
	CacheSize             *int  `river:"cache_size,attr,optional"`
	StripTextSection      *bool `river:"strip_text_section,attr,optional"`
	QueueSize             *int  `river:"queue_size,attr,optional"`
	WorkerNum             *int  `river:"worker_num,attr,optional"`
}

// withoutEffect returns the names of the arguments whose values ask for a behaviour that this profiler does not have.
// An argument that asks for existing behaviour, such as ruby_enabled = false, is no reason to warn.
func (u *UnusedArguments) withoutEffect() []string {
	var names asked
	names.addArgument("pid_cache_size", isSet(u.PIDCacheSize))
	names.addArgument("build_id_cache_size", isSet(u.BuildIDCacheSize))
	names.addArgument("same_file_cache_size", isSet(u.SameFileCacheSize))
	names.addArgument("cache_rounds", isSet(u.CacheRounds))
	names.addArgument("symbols_map_size", isSet(u.SymbolsMapSize))
	names.addArgument("pid_map_size", isSet(u.PIDMapSize))
	names.addArgument("symb_cache_path", isSet(u.SymbCachePath))
	names.addArgument("symb_cache_size", isSet(u.SymbCacheSize))
	names.addArgument("bpf_fs_root", isSet(u.BPFFSRoot))

	names.addArgument("perl_enabled", is(u.PerlEnabled, true))
	names.addArgument("php_enabled", is(u.PHPEnabled, true))
	names.addArgument("ruby_enabled", is(u.RubyEnabled, true))
	names.addArgument("dotnet_enabled", is(u.DotnetEnabled, true))
	names.addArgument("go_enabled", is(u.GoEnabled, true))

	names.addArgument("load_probe", is(u.LoadProbe, true))

	names.addArgument("go_table_fallback", is(u.GoTableFallback, true))
	names.addArgument("reporter_unsymbolized_stubs", is(u.ReporterUnsymbolizedStubs, true))
	names.addArgument("verbose_mode", is(u.VerboseMode, true))
	names.addArgument("lazy_mode", is(u.LazyMode, true))
	names.addArgument("no_kernel_version_check", is(u.NoKernelVersionCheck, false)) // there is no such check
	names.addArgument("obi_process_context_enabled", is(u.OBIProcessContextEnabled, true))

	if d := u.DebugInfoUpload; d != nil {
		names.addArgument("debug_info.on_target_symbolization", is(d.OnTargetSymbolization, false)) // always on
		names.addArgument("debug_info.upload", is(d.Upload, true))
		names.addArgument("debug_info.cache_size", isSet(d.CacheSize))
		names.addArgument("debug_info.strip_text_section", is(d.StripTextSection, true))
		names.addArgument("debug_info.queue_size", isSet(d.QueueSize))
		names.addArgument("debug_info.worker_num", isSet(d.WorkerNum))
	}
	return names
}

type asked []string

func (a *asked) addArgument(name string, asked bool) {
	if asked {
		*a = append(*a, name)
	}
}

// Warnings implements component.Warner. River does not look for it in a squashed field.
func (a *Arguments) Warnings() []*component.AttributeError { return a.Settings.Warnings() }

// Warnings implements component.Warner.
func (a *Settings) Warnings() []*component.AttributeError {
	var warnings []*component.AttributeError
	for _, name := range a.Unused.withoutEffect() {
		warnings = append(warnings, component.NoEffect(name, "pyroscope.ebpf of Headwater does without it"))
	}
	if a.OffCPUThreshold > 1 {
		warnings = append(warnings, &component.AttributeError{Attribute: "off_cpu_threshold",
			Message: fmt.Sprintf("is a probability from 0 to 1, got %v: it counts as 1", a.OffCPUThreshold)})
	}
	return warnings
}

func isSet[T any](p *T) bool { return p != nil }

func is(p *bool, value bool) bool { return p != nil && *p == value }
