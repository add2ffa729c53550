package kernel

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
)

// Profiler is the loaded BPF side, which samples after Start.
type Profiler struct {
	objects profilerObjects
	tables  *Tables
	wakeups *wakeups
	samples *sampleReader

	mu        sync.Mutex
	flags     profilerConfigFlags
	rings     *sampleRings       // nil if not open
	clocks    map[int]*perfEvent // by CPU
	events    map[kind.Kind]*events
	snapshots *snapshots      // nil if none are kept
	accounted map[int]cpuTime // at the last change of the period
	period    time.Duration
	due       due    // until the last change of the period
	throttled uint64 // the last Counters.Throttled
	skipped   uint64 // the last Counters.Skipped
	runTime   runTime
}

// Counters are totals since the programs were loaded.
type Counters struct {
	Expected  uint64 // samples due: busy time of the CPUs divided by the period
	Throttled uint64 // part of Expected: due while the kernel had stopped the clock
	Skipped   uint64 // part of Expected: due in periods in which the timer did not run

	Ticks   uint64 // timer events seen
	Idle    uint64 // part of Ticks: on the idle task; not every idle CPU has any
	Ignored uint64 // part of Ticks: in ignored processes
	Lost    uint64 // part of Ticks: dropped because the CPU's ring was full

	Events     uint64 // samples of events, see SetEvents, including ignored ones
	EventsLost uint64 // part of Events: dropped because the CPU's ring was full

	StackCopies    uint64 // samples that carry a copy of their stack, because the walk missed a table
	StackCopyBytes uint64
	StacksUncopied uint64 // samples that need a copy, but came too fast one after another

	Ran time.Duration // how long the programs have run, see CountTime

	Outcomes [unwind.NumOutcomes]uint64

	Chains       [language.NumChainEnds]uint64 // chains of interpreters' frames, by how they ended
	ChainFrames  uint64
	CodesNamed   uint64 // new code objects that samples name
	CodesUnnamed uint64 // new code objects that came too fast one after another
}

// Options configure a Profiler.
type Options struct {
	TableBytes int // limit of the memory for unwind tables, see Tables
}

// Load loads the programs and maps. It returns a *PermissionError when the process lacks capabilities.
func Load(o Options) (*Profiler, error) {
	if err := prepareToLoad(); err != nil {
		return nil, err
	}
	spec, err := loadProfiler()
	if err != nil {
		return nil, err
	}
	inner := spec.Maps[profilerMapSlabs].InnerMap.Copy()
	cpus, err := sizeMaps(spec)
	if err != nil {
		return nil, err
	}
	p := &Profiler{
		clocks: map[int]*perfEvent{}, events: map[kind.Kind]*events{}, accounted: map[int]cpuTime{},
		flags: profilerConfigFlagsCONFIG_USER_STACKS | profilerConfigFlagsCONFIG_KERNEL_STACKS, // as in bpf/sample/maps.h
	}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("load BPF programs: %w", err)
	}
	if err := p.openObjects(inner, cpus, o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// prepareToLoad checks that this process may load BPF programs and sees the PIDs that they write, and lifts the limit
// of its locked memory.
func prepareToLoad() error {
	if err := checkPermissions(); err != nil {
		return err
	}
	if err := CheckNamespace(); err != nil {
		return err
	}
	// Kernels before 5.11 charge maps to RLIMIT_MEMLOCK.
	if err := rlimit.RemoveMemlock(); err != nil {
		return fmt.Errorf("raise RLIMIT_MEMLOCK: %w", err)
	}
	return nil
}

// sizeMaps adapts the maps to the CPUs and the kernel of this machine, and returns the number of CPUs.
func sizeMaps(spec *ebpf.CollectionSpec) (cpus int, err error) {
	if cpus, err = ebpf.PossibleCPU(); err != nil {
		return 0, fmt.Errorf("count CPUs: %w", err)
	}
	spec.Maps[profilerMapSampleRings].MaxEntries = uint32(cpus)
	// A ring buffer is made of whole pages of memory.
	spec.Maps[profilerMapWakeups].MaxEntries = max(uint32(profilerLimitsWAKEUPS_BYTES), uint32(os.Getpagesize()))
	if noPreallocAllowed() {
		spec.Maps[profilerMapProcesses].Flags |= preallocOff
	} else {
		spec.Maps[profilerMapProcesses].MaxEntries = maxPreallocated
	}
	return cpus, nil
}

const preallocOff = 1 // BPF_F_NO_PREALLOC

// maxPreallocated bounds the processes where the kernel allocates the map's memory at once.
const maxPreallocated = 16384

// noPreallocAllowed reports whether perf event programs may use hash maps without preallocated elements, which is so
// since Linux 6.1. It tests for the user ring buffer, which came with the same kernel.
func noPreallocAllowed() bool {
	return features.HaveMapType(ebpf.UserRingbuf) == nil
}

func (p *Profiler) openObjects(inner *ebpf.MapSpec, cpus int, o Options) error {
	var err error
	if err := p.linkEvents(); err != nil {
		return err
	}
	if p.tables, err = newTables(&p.objects, inner, o.TableBytes); err != nil {
		return err
	}
	if p.rings, err = openRings(p.objects.SampleRings, cpus); err != nil {
		return err
	}
	if p.wakeups, err = openWakeups(p.objects.Wakeups); err != nil {
		return err
	}
	p.samples = newSampleReader(p.wakeups, p.rings)
	return nil
}

// Tables returns the tables that the unwinder uses.
func (p *Profiler) Tables() *Tables { return p.tables }

// SetKnownOnly sets whether only processes that SetProcess has stored are sampled.
func (p *Profiler) SetKnownOnly(only bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flags &^= profilerConfigFlagsCONFIG_KNOWN_ONLY
	if only {
		p.flags |= profilerConfigFlagsCONFIG_KNOWN_ONLY
	}
	return p.configure()
}

// SetStacks sets which parts of the stack samples have, and whether the stack is copied when its walk misses a table.
func (p *Profiler) SetStacks(user, kernel, copyMissed bool) error {
	var flags profilerConfigFlags
	if user {
		flags |= profilerConfigFlagsCONFIG_USER_STACKS
	}
	if kernel {
		flags |= profilerConfigFlagsCONFIG_KERNEL_STACKS
	}
	if copyMissed {
		flags |= profilerConfigFlagsCONFIG_COPY_STACKS
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshots != nil {
		flags |= profilerConfigFlagsCONFIG_KEEP_EVENTS
	}
	p.flags = flags | p.flags&profilerConfigFlagsCONFIG_KNOWN_ONLY
	return p.configure()
}

// configure passes the flags to the programs. The caller holds p.mu.
func (p *Profiler) configure() error {
	if err := p.objects.Config.Set(uint32(p.flags)); err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	return nil
}

// Start starts sampling every online CPU at the given rate, in samples per second, or changes the rate. It adds CPUs
// that came online since the last call. After an error on one CPU it continues with the other CPUs, so that a second
// call can undo the first.
func (p *Profiler) Start(rate int) error {
	cpus, err := onlineCPUs()
	if err != nil {
		return fmt.Errorf("find online CPUs: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	period := time.Second / time.Duration(rate)
	if period != p.period {
		p.accountPeriod()
	}
	p.period = period
	var errs []error
	for _, cpu := range cpus {
		errs = append(errs, p.startCPU(cpu))
	}
	return errors.Join(errs...)
}

func (p *Profiler) startCPU(cpu int) error {
	if clock, ok := p.clocks[cpu]; ok {
		return clock.setPeriod(uint64(p.period))
	}
	clock, err := p.openClock(cpu)
	if err != nil {
		return err
	}
	p.clocks[cpu] = clock
	if now, ok := p.cpuTimes()[cpu]; ok { // before it runs, so that all samples that it takes were due
		p.accounted[cpu] = now
	}
	if err := clock.attach(p.objects.SampleCpu.FD()); err != nil {
		delete(p.clocks, cpu)
		delete(p.accounted, cpu)
		return errors.Join(err, p.closeClock(clock))
	}
	return nil
}

// CloseCPUs closes the events of CPUs that have been offline. Start and SetEvents open them again on the CPUs that are
// back.
func (p *Profiler) CloseCPUs(cpus []int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accountEnded(cpus)
	var errs []error
	for _, cpu := range cpus {
		if clock, ok := p.clocks[cpu]; ok {
			errs = append(errs, p.closeClock(clock))
			delete(p.clocks, cpu)
		}
	}
	for _, of := range p.events {
		errs = append(errs, of.dropCPUs(func(cpu int) bool { return slices.Contains(cpus, cpu) }))
	}
	return errors.Join(errs...)
}

// ReadSamples hands every sample that is available or arrives before the deadline to f. Only one goroutine may call it.
// flushed reports that it ended early because of Flush, with all samples that were taken before.
func (p *Profiler) ReadSamples(deadline time.Time, f func(*Sample)) (flushed bool, err error) {
	return p.samples.readUntil(deadline, f)
}

// Flush makes ReadSamples return once it has read the samples that are available now.
func (p *Profiler) Flush() error { return p.wakeups.flush() }

// Counters reads the totals.
func (p *Profiler) Counters() (Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rings == nil {
		return Counters{}, fmt.Errorf("read counters: %w", ErrClosed)
	}
	now := p.due.plusDue(p.dueSince(p.cpuTimes()))
	c, err := p.rings.counters(), error(nil)
	c.Expected = now.samples
	// The clocks count correctly, which reveals the samples that they did not take. The taken samples are read last:
	// while this thread waits for a CPU in between, more samples may be taken than were due, and none are missing. Idle
	// times have steps. The kernel also stops the clocks of idle CPUs, where no samples are due.
	if taken := c.Ticks - c.Idle; now.samples > taken {
		missing := now.samples - taken
		p.throttled = max(p.throttled, min(now.throttled, missing))
		p.skipped = max(p.skipped, missing-min(now.throttled, missing))
	}
	c.Throttled, c.Skipped = p.throttled, p.skipped
	c.Ran, err = p.timeRun()
	return c, err
}

// Stop ends sampling; samples already taken can still be read.
func (p *Profiler) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, clock := range p.clocks { // first, so that they take no samples while the due ones are added up
		errs = append(errs, clock.disable())
	}
	p.accountPeriod()
	for _, clock := range p.clocks {
		errs = append(errs, p.closeClock(clock))
	}
	clear(p.clocks)
	clear(p.accounted)
	for k := range p.events {
		errs = append(errs, p.stopEvents(k))
	}
	return errors.Join(errs...)
}

// Close stops sampling and unloads everything. No goroutine may be reading.
func (p *Profiler) Close() error {
	errs := []error{p.Stop(), p.CountTime(false)}
	if p.wakeups != nil {
		errs = append(errs, p.wakeups.close())
	}
	if p.tables != nil {
		errs = append(errs, p.tables.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rings != nil {
		errs = append(errs, p.rings.close())
		p.rings = nil
	}
	return errors.Join(append(errs, p.objects.Close())...)
}
