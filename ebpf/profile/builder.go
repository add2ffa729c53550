package profile

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/numa"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/pprof"
)

// Executables returns the executables of frames. *sampler.Sampler implements it.
type Executables interface {
	Executable(id unwind.ExeID) *process.Executable           // nil if no longer known
	Source(e *process.Executable) process.Source              // the file with the names of e
	JITCode(exe unwind.ExeID) (*process.JITCode, bool)        // the JIT code that exe stands for, if it is not a file
	Interpreter(exe unwind.ExeID) (*engine.Interpreter, bool) // the interpreter that exe stands for, if not a file
	DebugFiles() *debugfile.Finder                            // closed with the Builder
}

// Builder counts samples by target and stack, and makes pprof profiles. Its methods may be called concurrently.
type Builder struct {
	names *names
	nodes *numa.Nodes
	epoch int64 // time of CLOCK_MONOTONIC 0, ns since 1970

	collecting sync.Mutex  // one Collect at a time; guards collected
	collected  time.Time   // end of the last Collect
	clock      pprof.Clock // for all profiles

	mu       sync.Mutex
	options  Options
	current  *aggregate
	past     []*aggregate // of earlier options since the last Collect
	replaced Options      // the options before the last Update
	updated  uint64       // time of the last Update, CLOCK_MONOTONIC; 0 if none
	counts   counts
}

// New returns a Builder, which reads files through work. Close it after use.
func New(o Options, e Executables, work *filework.Pool) (*Builder, error) {
	now := time.Now()
	b := &Builder{
		names: newNames(e, work), collected: now, epoch: now.UnixNano() - int64(clock.Monotonic()),
		nodes: numa.New(numa.Sysfs), options: o, counts: newCounts(),
	}
	b.current = newAggregate(o, b.epoch, b.nodes)
	update, err := b.Prepare(o)
	if err != nil {
		b.Close()
		return nil, err
	}
	b.names.debuginfod.useClient(update.fetcher, o.Debuginfod, b.names.symbolizer)
	return b, nil
}

// Update is a prepared change of options, which can no longer fail. Prepare one at a time, and either apply or discard
// it.
type Update struct {
	builder *Builder
	options Options
	fetcher *debuginfod.Client
}

// Prepare does the part of a change of options that may fail.
func (b *Builder) Prepare(o Options) (*Update, error) {
	fetcher, err := b.names.debuginfod.prepare(o.Debuginfod)
	if err != nil {
		return nil, err
	}
	return &Update{b, o, fetcher}, nil
}

// Discard drops the update and leaves the options unchanged.
func (u *Update) Discard() { u.builder.names.debuginfod.discard(u.fetcher) }

// Apply makes the options effective for samples taken from now on. The next Collect returns earlier samples according
// to the old options.
func (u *Update) Apply() {
	b := u.builder
	b.names.debuginfod.useClient(u.fetcher, u.options.Debuginfod, b.names.symbolizer)
	b.names.symbolizer.SetTableBytes(u.options.SymbolBytes)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replaced, b.options = b.options, u.options
	b.startAggregate()
	b.updated = b.current.from
}

// startAggregate appends the current aggregate to the past ones and starts a new one. The caller holds b.mu.
func (b *Builder) startAggregate() {
	b.current.ended = time.Now()
	b.past = append(b.past, b.current)
	b.current = newAggregate(b.options, b.epoch, b.nodes)
}

// Add counts a sample for its target, which must be set.
func (b *Builder) Add(s *sampler.Sample) {
	if s.OutsideFile {
		b.names.jit.Observe(s.PID)
	}
	waker := b.names.wakerOf(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.addOutcome(s)
	b.aggregateOf(s).addSample(s, waker)
}

// aggregateOf returns the aggregate for a sample: a sample from before the last Update counts according to the old
// options.
func (b *Builder) aggregateOf(s *sampler.Sample) *aggregate {
	if s.Time >= b.updated {
		return b.current
	}
	if len(b.past) == 0 { // this sample is late: Collect has already returned the old aggregate
		late := newAggregate(b.replaced, b.epoch, b.nodes)
		late.ended = late.begun.Add(time.Nanosecond) // the returned profiles already cover its time
		b.past = append(b.past, late)
	}
	return b.past[len(b.past)-1]
}

// Bytes returns the memory of the distinct stacks that the next Collect will name, without the overhead of the maps.
func (b *Builder) Bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := b.current.bytes
	for _, a := range b.past {
		sum += a.bytes
	}
	return sum
}

// Observe updates names from a side-band record.
func (b *Builder) Observe(r *kernel.Record) { b.names.observe(r) }

// Ended reports that a process has ended, and that all its samples were added.
func (b *Builder) Ended(pid uint32) { b.names.jit.Ended(pid) }

// Forget drops the symbols of executables.
func (b *Builder) Forget(executables []unwind.ExeID) {
	for _, id := range executables {
		b.names.symbolizer.Forget(uint32(id))
	}
}

// Hurry makes the current Collect, and all later calls, wait for names as briefly as possible.
func (b *Builder) Hurry() { b.names.readers.hurry() }

// Interrupt stops reading names. Names not read yet are missing from the results of Collect from now on.
func (b *Builder) Interrupt() { b.names.symbolizer.Close() }

// Close releases all resources. No other method may be running.
func (b *Builder) Close() { b.names.close() }

// Collect returns profiles of the samples added since the last call. It waits a few seconds at most for names: later
// names are in the next profiles.
func (b *Builder) Collect() []Profile {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	return b.collect(patienceAfter(time.Since(b.collected)))
}

// CollectWithin is like Collect, but waits for names as long as patience, for a caller that collects no further
// profiles.
func (b *Builder) CollectWithin(patience time.Duration) []Profile {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	return b.collect(patience)
}

// CollectInto adds the samples since the last call to one profile, for all targets, and waits for names as long as
// CollectWithin. A caller that calls it repeatedly keeps equal stacks once.
func (b *Builder) CollectInto(to *pprof.Builder, patience time.Duration) {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	b.eachTarget(patience, func(n *namer, c *targetCounts, a *aggregate) {
		n.addAll(to, c, a)
		b.countProfiled(c.samples())
	})
	to.Forget()
}

// collect names the samples since the last call. The caller holds b.collecting.
func (b *Builder) collect(patience time.Duration) (out []Profile) {
	b.eachTarget(patience, func(n *namer, c *targetCounts, a *aggregate) {
		made := n.profiles(c, a, &b.clock)
		for _, p := range made {
			b.countProfiled(p.Samples)
		}
		out = append(out, made...)
	})
	return out
}

// eachTarget calls use with the counts of each target since the last call. The caller holds b.collecting.
func (b *Builder) eachTarget(patience time.Duration, use func(*namer, *targetCounts, *aggregate)) {
	past := b.takeAggregates()
	defer func() { b.collected = time.Now() }()

	ended := b.names.jit.Gone()
	b.names.refreshDebugFiles()
	var how []naming
	for _, a := range past {
		how = append(how, namingOf(&a.options))
	}
	namer := b.names.namer(how...)
	namer.readStacks(stacksOf(past), patience)
	for _, a := range past {
		for of, c := range a.targets {
			namer.counts = symbolCounts{}
			use(namer, c, a)
			b.countNamed(c.target.ServiceName(), namer.counts)
			delete(a.targets, of) // frees its stacks early
		}
	}
	b.countUnnamed(namer.unnamed)
	b.names.trimEnded(ended, namer.unknownKernel)
}

// takeAggregates returns the aggregates since the last call.
func (b *Builder) takeAggregates() []*aggregate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.startAggregate()
	past := b.past
	b.past = nil
	return past
}
