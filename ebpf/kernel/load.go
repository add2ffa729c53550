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

	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Profiler is the loaded and, after Start, sampling BPF side.
type Profiler struct {
	objects profilerObjects
	tables  *Tables
	wakeups *wakeups
	samples *sampleReader

	mu        sync.Mutex
	flags     profilerConfigFlags
	rings     *sampleRings       // nil: not open
	clocks    map[int]*perfEvent // by CPU
	events    map[kind.Kind]*events
	snapshots *snapshots      // nil: none are kept
	accounted map[int]cpuTime // at the last change of the period
	period    time.Duration
	due       due    // until the last change of the period
	throttled uint64 // Counters.Throttled of the last time
	skipped   uint64 // Counters.Skipped of the last time
	runTime   runTime
}

// Counters are totals since the programs were loaded.
type Counters struct {
	Expected  uint64 // samples due: time that CPUs were busy over the period
	Throttled uint64 // of these, due while the kernel had stopped the clock
	Skipped   uint64 // of these, due in periods in which the timer did not run

	Ticks   uint64 // timer events seen
	Idle    uint64 // of these, on the idle task; not every idle CPU has any
	Ignored uint64 // of these, in processes to be ignored
	Lost    uint64 // of these, dropped because the CPU's ring was full

	Events     uint64 // samples of kinds that are events, see SetEvents, the ignored ones included
	EventsLost uint64 // of these, dropped because the CPU's ring was full

	StackCopies    uint64 // samples that carry a copy of their stack, because the walk missed a table
	StackCopyBytes uint64
	StacksUncopied uint64 // samples that should, but came too fast one after another

	Ran time.Duration // how long the programs have run, see CountTime

	Outcomes [unwind.NumOutcomes]uint64

	Chains       [runtime.NumChainEnds]uint64 // of frames that interpreters keep, by how they ended
	ChainFrames  uint64
	CodesNamed   uint64 // code objects that samples carry the names of, as they are new
	CodesUnnamed uint64 // that are new, but came too fast one after another
}

// Options configure a Profiler.
type Options struct {
	TableBytes int // limit of the memory for unwind tables, see Tables
}

// Load loads the programs and maps. It returns a *PermissionError when the
// process may not.
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
		flags: profilerConfigFlagsCONFIG_USER_STACKS | profilerConfigFlagsCONFIG_KERNEL_STACKS, // as in bpf/maps.h
	}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("load BPF programs: %w", err)
	}
	if err := p.open(inner, cpus, o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// prepareToLoad checks that this process may load BPF programs and reads the PIDs that they write, and lets it have
// maps.
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

// sizeMaps fits the maps to this machine and kernel, and returns the number of CPUs.
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

// maxPreallocated bounds the processes where the map's memory is taken at once.
const maxPreallocated = 16384

// noPreallocAllowed reports whether perf event programs may use hashes without
// preallocated elements. The same kernel, 6.1, brought the user ring buffer.
func noPreallocAllowed() bool {
	return features.HaveMapType(ebpf.UserRingbuf) == nil
}

func (p *Profiler) open(inner *ebpf.MapSpec, cpus int, o Options) error {
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

// Tables returns what the unwinder looks things up in.
func (p *Profiler) Tables() *Tables { return p.tables }

// SetKnownOnly says whether only those processes are sampled that SetProcess has made known.
func (p *Profiler) SetKnownOnly(only bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flags &^= profilerConfigFlagsCONFIG_KNOWN_ONLY
	if only {
		p.flags |= profilerConfigFlagsCONFIG_KNOWN_ONLY
	}
	return p.configure()
}

// SetStacks says which parts of the stack samples have, and whether the stack
// of a walk that missed a table is copied.
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

// configure hands the flags to the programs. p.mu is held.
func (p *Profiler) configure() error {
	if err := p.objects.Config.Set(uint32(p.flags)); err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	return nil
}

// Start begins to sample every online CPU at the given rate, in samples per
// second, or changes the rate. CPUs that came online since are added. An error of one
// CPU leaves none of the others out, so that a second call can undo the first.
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
	if now, ok := p.cpuTimes()[cpu]; ok { // before it runs, so that what it takes was due
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
		errs = append(errs, of.drop(func(cpu int) bool { return slices.Contains(cpus, cpu) }))
	}
	return errors.Join(errs...)
}

// ReadSamples hands every sample that is there or arrives before the deadline to f. One
// goroutine may call it. flushed says that it ended early, with all samples taken before a
// call of Flush.
func (p *Profiler) ReadSamples(deadline time.Time, f func(*Sample)) (flushed bool, err error) {
	return p.samples.read(deadline, f)
}

// Flush makes ReadSamples return once it has read what there is now.
func (p *Profiler) Flush() error { return p.wakeups.flush() }

// Counters reads the totals.
func (p *Profiler) Counters() (Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rings == nil {
		return Counters{}, fmt.Errorf("read counters: %w", ErrClosed)
	}
	now := p.due.plus(p.dueSince(p.cpuTimes()))
	c, err := p.rings.counters(), error(nil)
	c.Expected = now.samples
	// The clocks themselves are right, which is how the samples are known that they did not
	// take. What they took is read last: it may have more samples than were due, which are not
	// missing, while this thread waits for a CPU in between. Idle times have steps. The kernel
	// stops clocks of idle CPUs too, where nothing is due.
	if taken := c.Ticks - c.Idle; now.samples > taken {
		missing := now.samples - taken
		p.throttled = max(p.throttled, min(now.throttled, missing))
		p.skipped = max(p.skipped, missing-min(now.throttled, missing))
	}
	c.Throttled, c.Skipped = p.throttled, p.skipped
	c.Ran, err = p.ran()
	return c, err
}

// Stop ends sampling; samples already taken can still be read.
func (p *Profiler) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, clock := range p.clocks { // before what was due is added up, so that they take nothing meanwhile
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

// Close stops sampling and unloads everything. Nobody may be reading.
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
