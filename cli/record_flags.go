package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/headwater/headwater/cli/internal/containers"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/host/numa"
	"github.com/headwater/headwater/ebpf/profile"
	"github.com/headwater/headwater/ebpf/record"
	"github.com/headwater/headwater/ebpf/source/heap"
	"github.com/headwater/headwater/flame/demangle"
	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/kind"
)

// samplingFlags are the flags for sampling: the selection, and how to sample.
type samplingFlags struct {
	selection record.Selection
	pids      []uint
	tids      []uint
	cpus      string
	all       bool

	rate                 int
	event                event
	kernelOnly, userOnly bool
	inline               yesNo
	demangle             string
}

func (f *samplingFlags) register(flags *pflag.FlagSet) {
	flags.UintSliceVarP(&f.pids, "pid", "p", nil, "sample these processes, and processes that they start later")
	flags.BoolVar(&f.selection.Children, "children", false, "with --pid: also sample child processes that already run")
	flags.UintSliceVarP(&f.tids, "tid", "t", nil, "sample these threads")
	flags.BoolVarP(&f.all, "all-cpus", "a", false, "sample the whole host")
	flags.StringVarP(&f.cpus, "cpu", "C", "", "sample only these CPUs, such as 0-3,5")
	flags.StringVarP(&f.selection.Cgroup, "cgroup", "G", "", "sample this control group and the groups below it")
	flags.StringVar(&f.selection.Container, "container", "",
		"sample this container: ID, ID prefix, or Docker or Podman name")
	flags.StringVar(&f.selection.Unit, "unit", "", "sample this systemd unit")
	flags.IntVarP(&f.rate, "freq", "F", 99, "samples per second and CPU")
	flags.IntVarP(&f.rate, "rate", "r", 99, "the same as --freq, as in py-spy")
	flags.VarP(&f.event, "event", "e", "event to sample: cpu (CPU time), off-cpu (time that threads wait), wall "+
		"(both), page-faults (memory at its first touch), major-faults (faults that wait for a disk), heap (memory in "+
		"use), or a probe such as uprobe:PATH:FUNCTION")
	flags.BoolVarP(&f.kernelOnly, "kernel", "K", false, "sample only the kernel part of stacks")
	flags.BoolVarP(&f.userOnly, "user", "U", false, "sample only the user part of stacks")
	f.inline = true
	flags.Var(&f.inline, "inline", "show inlined functions: yes or no")
	flags.StringVar(&f.demangle, "demangle", demangle.Templates.String(),
		"form of C++ and Rust names: none, simplified, templates or full; "+
			"only full shows the addresses in names of Java's hidden classes")
}

// options checks the flags, and returns the options they specify. It requires a selection, and refuses more than one.
func (f *samplingFlags) options() (o record.Options, err error) {
	demangle, err := demangle.Parse(f.demangle)
	if err != nil {
		return o, fmt.Errorf("--demangle: %w", err)
	}
	if f.selection.CPUs, err = numa.ParseCPUs(f.cpus); err != nil {
		return o, fmt.Errorf("--cpu: %w", err)
	}
	f.selection.PIDs, f.selection.TIDs = numbersOf(f.pids), numbersOf(f.tids)
	if err := f.check(); err != nil {
		return o, err
	}
	selection := f.selection
	if name := selection.Container; name != "" {
		if selection.Container, err = containers.Resolve(context.Background(), name); err != nil {
			return o, fmt.Errorf("--container: %w", err)
		}
	}
	return record.Options{
		Selection: selection, SampleRate: f.rate, UserStacks: !f.kernelOnly, KernelStacks: !f.userOnly,
		InlineFrames: bool(f.inline), Demangle: demangle, TableBytes: ebpf.DefaultTableBytes,
		HeapLimit: heap.DefaultLimit,
	}, nil
}

// chosen returns the number of selections that are set.
func (f *samplingFlags) chosen() (n int) {
	s := &f.selection
	groups := s.Cgroup + s.Unit + s.Container
	for _, is := range []bool{f.all, len(f.pids) > 0, len(f.tids) > 0, s.Command, groups != ""} {
		if is {
			n++
		}
	}
	return n
}

// check returns an error for invalid flags.
func (f *samplingFlags) check() error {
	chosen := f.chosen()
	switch {
	case chosen == 0 && len(f.selection.CPUs) == 0:
		return errors.New("choose what to record: -a the whole host, -p PID a process, -- COMMAND a program (see --help)")
	case chosen > 1:
		return errors.New("--all-cpus, --pid, --tid, control groups and a command exclude each other")
	case f.selection.Children && len(f.pids) == 0:
		return errors.New("--children needs --pid: a command and a control group are recorded with all their processes")
	case f.rate < ebpf.MinSampleRate || f.rate > ebpf.MaxSampleRate:
		return fmt.Errorf("--freq must be between %d and %d samples per second, got %d",
			ebpf.MinSampleRate, ebpf.MaxSampleRate, f.rate)
	case f.kernelOnly && f.userOnly:
		return errors.New("--kernel and --user exclude each other")
	}
	return nil
}

// maxPasses is the maximum rate per second of sampling threads for off-CPU time.
const maxPasses = 20

// recordFlags are the flags of the command record.
type recordFlags struct {
	samplingFlags

	period    uint64
	heapLimit float64
	duration  time.Duration
	output    string
	format    string
	push      pushFlags

	threads    bool
	labels     []string
	timestamps bool

	quiet, verbose, json, noColor bool
	callGraph                     bool
	callGraphMode                 string
}

func (f *recordFlags) register(flags *pflag.FlagSet) {
	f.samplingFlags.register(flags)
	flags.Uint64VarP(&f.period, "period", "c", 0, "with -e page-faults, major-faults or a probe: sample one of this "+
		"many events (default 256, 1 and 1); with -e heap: sample one per this many bytes (default 524288)")
	flags.Float64Var(&f.heapLimit, "heap-limit", 100*heap.DefaultLimit, "with -e heap: largest share of a "+
		"program's CPU time for probes, in percent; above it, its memory is not recorded for a while; 0: no limit")
	flags.VarP((*duration)(&f.duration), "duration", "d", "how long to record, such as 10, 10s or 5m; 0s: until Ctrl-C")
	flags.StringVarP(&f.output, "output", "o", "headwater.pb.gz", "file to write, - for standard output")
	flags.StringVarP(&f.format, "format", "f", "",
		"format of the file (default: by the end of its name): "+strings.Join(export.Names(), ", "))
	f.push.register(flags)
	flags.BoolVar(&f.threads, "threads", false, "keep the thread of each sample")
	flags.StringSliceVar(&f.labels, "label", nil, "keep these labels of samples: "+
		strings.Join(profile.LabelNames(), ", ")+"; with -e off-cpu or wall also waker, the thread that ended the wait")
	flags.BoolVar(&f.timestamps, "timestamps", false, "keep the time of each sample (format pprof)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "also print why names or stacks are missing")
	flags.BoolVar(&f.json, "json", false, "print the summary as JSON on standard output")
	flags.BoolVar(&f.noColor, "no-color", false, "accepted without effect: the output has no colours")
	flags.BoolVarP(&f.callGraph, "g", "g", false, "accepted without effect: stacks are always recorded")
	flags.StringVar(&f.callGraphMode, "call-graph", "", "accepted without effect: stacks need no frame pointers")
	flags.SetInterspersed(false) // arguments after the command's name belong to the command
}

// options checks the flags, and returns the options they specify.
func (f *recordFlags) options(args []string) (o record.Options, err error) {
	f.selection.Command = len(args) > 0
	if o, err = f.samplingFlags.options(); err != nil {
		return o, err
	}
	o.Timestamps = f.timestamps
	if f.threads {
		o.Labels = record.ThreadLabels()
	}
	o.OffCPURate = min(o.SampleRate, maxPasses)
	o.Kind, o.Period = f.event.kind, cmp.Or(f.period, kind.Of(f.event.kind).Period)
	o.HeapLimit = f.heapLimit / 100
	o.Probe = f.event.sampled(f.period)
	if err := parseLabels(f.labels, &o); err != nil {
		return o, err
	}
	return o, f.check()
}

// check returns an error for invalid flags.
func (f *recordFlags) check() error {
	isEvent := kind.Of(f.event.kind).Period > 0
	switch {
	case f.period > 0 && !isEvent:
		return fmt.Errorf("--period is for page-faults, major-faults, heap and probes: %s is sampled --freq times a second",
			&f.event)
	case f.period > ebpf.MaxPeriod:
		return fmt.Errorf("--period must be at most %d, got %d", ebpf.MaxPeriod, f.period)
	case !(f.heapLimit >= 0 && f.heapLimit <= 100):
		return fmt.Errorf("--heap-limit must be between 0 (no limit) and 100 percent, got %g", f.heapLimit)
	case f.timestamps && f.event.kind != kind.CPU:
		return fmt.Errorf("--timestamps is for CPU time, not for %s", &f.event)
	case f.duration < 0:
		return fmt.Errorf("--duration must not be negative, got %v", f.duration)
	case f.json && f.output == "-":
		return errors.New("--json and --output - exclude each other: both write to standard output")
	}
	return f.push.check()
}

// numbersOf converts the IDs of processes or threads.
func numbersOf(all []uint) (out []uint32) {
	for _, id := range all {
		out = append(out, uint32(min(id, 1<<32-1))) // no process has this ID
	}
	return out
}

// parseLabels selects the labels of samples.
func parseLabels(labels []string, o *record.Options) error {
	for _, label := range labels {
		switch {
		case label != profile.LabelWaker:
			o.Labels = append(o.Labels, label)
		case o.Kind != kind.OffCPU && o.Kind != kind.Wall:
			return fmt.Errorf("--label %s needs waits: add -e off-cpu or -e wall", label)
		default:
			o.Wakers = true
		}
	}
	if err := profile.CheckLabels(o.Labels); err != nil {
		return fmt.Errorf("--label: %w, %s", err, profile.LabelWaker)
	}
	return nil
}

// yesNo is a bool flag that also accepts yes and no.
type yesNo bool

func (y *yesNo) String() string {
	if *y {
		return "yes"
	}
	return "no"
}

func (y *yesNo) Type() string { return "yes|no" }

func (y *yesNo) Set(text string) error {
	switch text {
	case "yes", "true", "on", "1":
		*y = true
	case "no", "false", "off", "0":
		*y = false
	default:
		return errors.New("want yes or no")
	}
	return nil
}
