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

	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Profiler is the loaded and, after Start, sampling BPF side.
type Profiler struct {
	objects profilerObjects
	tables  *Tables
	slabs   *slabs
	calls   *calls
	samples *sampleReader

	mu       sync.Mutex
	logs     *logs                 // nil: not open
	clocks   map[int]*perfEvent    // by CPU
	copies   *copies               // nil: none are kept
	settled  map[int]time.Duration // busy time of a CPU at the last change of the period
	period   time.Duration
	expected uint64 // samples due until the last change of the period
}

// Counters are totals since the programs were loaded.
type Counters struct {
	Expected uint64 // samples due: time that CPUs were busy over the period
	Ticks    uint64 // timer events seen
	Idle     uint64 // of these, on the idle task; not every idle CPU has any
	Ignored  uint64 // of these, in processes to be ignored
	Lost     uint64 // of these, dropped because the CPU's log was full

	Copies      uint64 // samples that carry a copy of their stack, because the walk missed a table
	CopiedBytes uint64
	Uncopied    uint64 // samples that should, but came too fast one after another

	Outcomes [unwind.NumOutcomes]uint64
}

// Options configure a Profiler.
type Options struct {
	TableBytes int // limit of the memory for unwind tables, see Tables
}

// Load loads the programs and maps. It returns a *PermissionError when the
// process may not.
func Load(o Options) (*Profiler, error) {
	if err := checkPermissions(); err != nil {
		return nil, err
	}
	if err := checkNamespace(); err != nil {
		return nil, err
	}
	// Kernels before 5.11 charge maps to RLIMIT_MEMLOCK.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise RLIMIT_MEMLOCK: %w", err)
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
	p := &Profiler{clocks: map[int]*perfEvent{}, settled: map[int]time.Duration{}}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("load BPF programs: %w", err)
	}
	if err := p.open(inner, cpus, o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// sizeMaps fits the maps to this machine and kernel, and returns the number of CPUs.
func sizeMaps(spec *ebpf.CollectionSpec) (cpus int, err error) {
	if cpus, err = ebpf.PossibleCPU(); err != nil {
		return 0, fmt.Errorf("count CPUs: %w", err)
	}
	spec.Maps[profilerMapLogs].MaxEntries = uint32(cpus)
	// A ring buffer is made of whole pages of memory.
	spec.Maps[profilerMapCalls].MaxEntries = max(uint32(profilerLimitsCALLS_BYTES), uint32(os.Getpagesize()))
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
	if p.slabs, err = newSlabs(p.objects.Slabs, inner, o.TableBytes); err != nil {
		return err
	}
	p.tables = newTables(p.slabs, p.objects.Processes)
	if p.logs, err = openLogs(p.objects.Logs, cpus); err != nil {
		return err
	}
	if p.calls, err = openCalls(p.objects.Calls); err != nil {
		return err
	}
	p.samples = newSampleReader(p.calls, p.logs)
	return nil
}

// Tables returns what the unwinder looks things up in.
func (p *Profiler) Tables() *Tables { return p.tables }

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
	if p.copies != nil {
		flags |= profilerConfigFlagsCONFIG_KEEP_EVENTS
	}
	if err := p.objects.Config.Set(uint32(flags)); err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	return nil
}

// Start begins to sample every online CPU at the given rate, in samples per
// second, or changes the rate. CPUs that came online since are added.
func (p *Profiler) Start(rate int) error {
	cpus, err := onlineCPUs()
	if err != nil {
		return fmt.Errorf("find online CPUs: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	period := time.Second / time.Duration(rate)
	if period != p.period {
		p.settle()
	}
	p.period = period
	p.dropOffline(cpus)
	for _, cpu := range cpus {
		if err := p.startCPU(cpu); err != nil {
			return err
		}
	}
	return nil
}

func (p *Profiler) startCPU(cpu int) error {
	if clock, ok := p.clocks[cpu]; ok {
		return clock.setPeriod(p.period)
	}
	clock, err := p.openClock(cpu)
	if err != nil {
		return err
	}
	if err := clock.attach(p.objects.SampleCpu.FD()); err != nil {
		return errors.Join(err, p.closeClock(clock))
	}
	p.clocks[cpu] = clock
	if busy, ok := p.busyTimes()[cpu]; ok {
		p.settled[cpu] = busy
	}
	return nil
}

func (p *Profiler) dropOffline(online []int) {
	for cpu, clock := range p.clocks {
		if slices.Contains(online, cpu) {
			continue
		}
		p.closeClock(clock)
		delete(p.clocks, cpu)
		delete(p.settled, cpu)
	}
}

// settle adds what was due at the present period to expected, and begins anew.
func (p *Profiler) settle() {
	busy := p.busyTimes()
	p.expected += p.due(busy)
	p.settled = busy
}

// busyTimes is for how long each CPU that is sampled has been busy, since some
// time in the past.
func (p *Profiler) busyTimes() map[int]time.Duration {
	busy := map[int]time.Duration{}
	idle, err := procfs.Default.IdleTimes()
	if err != nil {
		return busy
	}
	for cpu, clock := range p.clocks {
		if running, err := clock.runningTime(); err == nil {
			busy[cpu] = running - idle[cpu]
		}
	}
	return busy
}

// due is the number of samples that busy CPUs should have had since settle.
func (p *Profiler) due(busy map[int]time.Duration) uint64 {
	var due uint64
	for cpu, now := range busy {
		if since, ok := p.settled[cpu]; ok && now > since {
			due += uint64((now - since) / p.period)
		}
	}
	return due
}

// ReadSamples hands every sample that is there or arrives before the deadline to
// f. One goroutine may call it. It returns ErrClosed after StopReading. flushed
// tells that it has ended early, with all samples taken before a call of Flush.
func (p *Profiler) ReadSamples(deadline time.Time, f func(*Sample)) (flushed bool, err error) {
	return p.samples.read(deadline, f)
}

// Flush makes ReadSamples return once it has read what there is now.
func (p *Profiler) Flush() error { return p.calls.flush() }

// Counters reads the totals.
func (p *Profiler) Counters() (Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logs == nil {
		return Counters{}, fmt.Errorf("read counters: %w", ErrClosed)
	}
	c := p.logs.counters()
	c.Expected = p.expected + p.due(p.busyTimes())
	return c, nil
}

// Stop ends sampling; samples already taken can still be read.
func (p *Profiler) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	var errs []error
	for _, clock := range p.clocks {
		errs = append(errs, p.closeClock(clock))
	}
	clear(p.clocks)
	clear(p.settled)
	return errors.Join(errs...)
}

// StopReading ends the present and every later ReadSamples with ErrClosed.
func (p *Profiler) StopReading() error { return p.calls.stop() }

// Close stops sampling and unloads everything. Nobody may be reading.
func (p *Profiler) Close() error {
	errs := []error{p.Stop()}
	if p.calls != nil {
		errs = append(errs, p.calls.close())
	}
	if p.slabs != nil {
		errs = append(errs, p.slabs.close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logs != nil {
		errs = append(errs, p.logs.close())
		p.logs = nil
	}
	return errors.Join(append(errs, p.objects.Close())...)
}
