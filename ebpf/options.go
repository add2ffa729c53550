// Package ebpf is the profiler as a Go library: it samples every CPU, unwinds user stacks in the kernel, names the
// frames and hands out pprof profiles.
//
// It does not depend on River, components or Prometheus; component/pyroscope/ebpf connects it to them.
package ebpf

import (
	"cmp"
	"fmt"

	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/collector"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/ebpf/source/offcpu"
	"github.com/headwater/headwater/ebpf/source/probe"
	"github.com/headwater/headwater/flame/kind"
)

// CommMode says where a process's name (its comm) goes in the profile.
type CommMode = profile.CommMode

// The places for a process's name.
const (
	CommNone       = profile.CommNone       // nowhere
	CommLabel      = profile.CommLabel      // a sample label "comm"
	CommStackframe = profile.CommStackframe // the root frame of every stack
	CommBoth       = profile.CommBoth       // label and root frame
)

// Limits of Options.SampleRate, in samples per second and CPU.
const (
	MinSampleRate     = 1
	MaxSampleRate     = 10_000
	DefaultSampleRate = 97
)

// DefaultContainerIDCacheSize is the default of Options.ContainerIDCacheSize.
const DefaultContainerIDCacheSize = 1024

// MaxPeriod limits Options.Periods.
const MaxPeriod = 1 << 31

// Limits of Options.TableBytes.
const (
	MinTableBytes     = 4 << 20
	DefaultTableBytes = 64 << 20
)

// ProfileOptions configure the content of profiles and the names of frames.
type ProfileOptions = profile.Options

// Options configure a Session. The zero value profiles the CPU time of all processes.
type Options struct {
	ProfileOptions // with the sample rate, MinSampleRate to MaxSampleRate; 0 means DefaultSampleRate

	Targets              []map[string]string // discovery targets, see package target
	DefaultTarget        map[string]string   // labels of processes that match no target
	TargetsOnly          bool                // do not profile processes that match no target
	ContainerIDCacheSize int                 // processes whose container ID is remembered; 0 means the default

	OffCPU OffCPU // also profile time that threads spend on no CPU

	// Probes also take samples. A probe that cannot be attached is tried again with each Collect; Stats.Errors says
	// why.
	Probes []probe.Probe

	// HeapBytes is how many bytes of memory are allocated for one sampled block, to profile the memory in use; 0 means
	// off. Each call of an allocator costs about a trap.
	HeapBytes int
	// HeapLimit is the share of its CPU time that a process may spend on these traps, such as 0.1. The memory of a
	// process that exceeds it is not sampled for a while. 0 means no limit.
	HeapLimit float64

	NoUserStacks   bool // leave out the user part of stacks
	NoKernelStacks bool // leave out the kernel part of stacks

	// TableBytes limits the kernel memory of unwind tables; 0 means DefaultTableBytes. When it is short, pages that
	// were not recently looked up are evicted.
	TableBytes int

	// CountBPFTime has the kernel measure how long BPF programs run, see Stats.BPFTime. It costs each run of any BPF
	// program on this host some tens of nanoseconds.
	CountBPFTime bool
}

// withDefaults returns o with the defaults in place of zeros.
func (o Options) withDefaults() Options {
	o.SampleRate = cmp.Or(o.SampleRate, DefaultSampleRate)
	o.Comm = cmp.Or(o.Comm, CommStackframe)
	o.ContainerIDCacheSize = cmp.Or(o.ContainerIDCacheSize, DefaultContainerIDCacheSize)
	o.TableBytes = cmp.Or(o.TableBytes, DefaultTableBytes)
	return o
}

// Validate returns an error that names the first field out of range.
func (o Options) Validate() error {
	o = o.withDefaults()
	if o.SampleRate < MinSampleRate || o.SampleRate > MaxSampleRate {
		return fmt.Errorf("sample rate must be between %d and %d samples per second, got %d",
			MinSampleRate, MaxSampleRate, o.SampleRate)
	}
	if o.TableBytes < MinTableBytes {
		return fmt.Errorf("memory for unwind tables must be at least %d bytes, got %d", MinTableBytes, o.TableBytes)
	}
	if err := o.Debuginfod.Validate(); err != nil {
		return fmt.Errorf("debuginfod: %w", err)
	}
	if err := profile.CheckLabels(o.Labels); err != nil {
		return err
	}
	for k, period := range o.Periods {
		if period < 0 || period > MaxPeriod {
			return fmt.Errorf("the period of %s must be between 0 and %d, got %d", kind.Kind(k), MaxPeriod, period)
		}
	}
	if r := o.OffCPU.Rate; r < 0 || r > MaxOffCPURate {
		return fmt.Errorf("the rate of off-CPU scans must be between 0 and %d per second, got %d", MaxOffCPURate, r)
	}
	if o.HeapBytes < 0 || o.HeapBytes > heap.MaxSampleBytes {
		return fmt.Errorf("the bytes per heap sample must be between 0 and %d, got %d", heap.MaxSampleBytes, o.HeapBytes)
	}
	switch o.Comm {
	case CommNone, CommLabel, CommStackframe, CommBoth:
	default:
		return fmt.Errorf("invalid comm mode %q, valid values are: none, label, stackframe, both", o.Comm)
	}
	return nil
}

// config returns the configuration of the sources of samples.
func (o Options) config() collector.Config {
	user, inKernel := !o.NoUserStacks, !o.NoKernelStacks
	content := o.ProfileOptions
	content.Periods[kind.OffCPU], content.Periods[kind.Heap] = o.OffCPU.period(), int64(o.HeapBytes)
	return collector.Config{
		Profile: content,
		Only:    o.processes(),
		CPU: sampler.Config{
			SampleRate: o.SampleRate, Periods: content.Periods, UserStacks: user, KernelStacks: inKernel,
			TableBytes: o.TableBytes, CountTime: o.CountBPFTime,
		},
		OffCPU: offcpu.Config{
			Rate: o.OffCPU.Rate, States: o.OffCPU.States, Wakers: o.OffCPU.Wakers, UserStacks: user, KernelStacks: inKernel,
		},
		Probes: probe.Config{Probes: o.Probes, UserStacks: user, KernelStacks: inKernel},
		Heap: heap.Config{
			SampleBytes: o.HeapBytes, UserStacks: user, Each: o.TargetsOnly, Limit: o.HeapLimit,
		},
	}
}

// processes returns the PIDs of the only processes to profile; nil if there may be more, such as new ones of a
// container.
func (o Options) processes() map[uint32]bool {
	if !o.TargetsOnly {
		return nil
	}
	return target.NewFinder(target.Options{Targets: o.Targets}).Processes()
}
