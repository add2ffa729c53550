package profile

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/clock"
	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/numa"
	"github.com/headwater/headwater/ebpf/pprof"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Executables knows the executables of frames; *sampler.Sampler is one.
type Executables interface {
	Executable(id unwind.ExeID) *process.Executable            // nil: not known any more
	Source(e *process.Executable) process.Source               // the file that has its names
	JITCode(exe unwind.ExeID) (*process.JITCode, bool)         // the code that it stands for, if it is no file
	Interpreter(exe unwind.ExeID) (*process.Interpreter, bool) // whose functions it stands for, if it is no file
}

// Builder counts samples by target and stack, and makes profiles of them. Its methods may
// be called concurrently.
type Builder struct {
	names *names
	nodes *numa.Nodes
	epoch int64 // when CLOCK_MONOTONIC was 0, ns since 1970

	collecting sync.Mutex  // one Collect at a time; guards collected
	collected  time.Time   // when Collect returned last
	clock      pprof.Clock // of all profiles

	mu       sync.Mutex
	options  Options
	current  *aggregate
	past     []*aggregate // of options that have changed since the last Collect
	replaced Options      // those before the last Update
	updated  uint64       // when that was, of CLOCK_MONOTONIC; 0: never
	counts   counts
}

// New returns a Builder. Files are read by work. Close it after use.
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
	b.names.debuginfod.use(update.fetcher, o.Debuginfod, b.names.symbolizer)
	return b, nil
}

// Update is a change of options that cannot fail any more. One is prepared at a time, and
// then either applied or discarded.
type Update struct {
	builder *Builder
	options Options
	fetcher *debuginfod.Client
}

// Prepare does what may fail of a change of options.
func (b *Builder) Prepare(o Options) (*Update, error) {
	fetcher, err := b.names.debuginfod.prepare(o.Debuginfod)
	if err != nil {
		return nil, err
	}
	return &Update{b, o, fetcher}, nil
}

// Discard leaves the options as they are.
func (u *Update) Discard() { u.builder.names.debuginfod.discard(u.fetcher) }

// Apply makes the options count for the samples that are taken from now on. The next Collect
// returns those taken until now as the old options wanted them.
func (u *Update) Apply() {
	b := u.builder
	b.names.debuginfod.use(u.fetcher, u.options.Debuginfod, b.names.symbolizer)
	b.names.symbolizer.SetTableBytes(u.options.SymbolBytes)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replaced, b.options = b.options, u.options
	b.startAggregate()
	b.updated = b.current.from
}

// startAggregate begins a new aggregate and puts the present one with the past ones. The
// caller holds b.mu.
func (b *Builder) startAggregate() {
	b.current.ended = time.Now()
	b.past = append(b.past, b.current)
	b.current = newAggregate(b.options, b.epoch, b.nodes)
}

// Add counts a sample for its target, which it must have.
func (b *Builder) Add(s *sampler.Sample) {
	if s.OutsideFile {
		b.names.jit.Observe(s.PID)
	}
	waker := b.names.wakerOf(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.addOutcome(s)
	b.aggregateOf(s).add(s, waker)
}

// aggregateOf returns where a sample counts: one that was taken before the
// options changed was taken as the old ones wanted it.
func (b *Builder) aggregateOf(s *sampler.Sample) *aggregate {
	if s.Time >= b.updated {
		return b.current
	}
	if len(b.past) == 0 { // whoever reads samples is behind, and Collect has returned the others
		late := newAggregate(b.replaced, b.epoch, b.nodes)
		late.ended = late.begun.Add(time.Nanosecond) // its time is in the profiles that were returned
		b.past = append(b.past, late)
	}
	return b.past[len(b.past)-1]
}

// Bytes returns the memory of the distinct stacks that the next Collect will name, but for what a
// map of them takes.
func (b *Builder) Bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := b.current.bytes
	for _, a := range b.past {
		sum += a.bytes
	}
	return sum
}

// Observe notes what a side-band record says about names.
func (b *Builder) Observe(r *kernel.Record) { b.names.observe(r) }

// Ended reports that no sample of a process will come any more.
func (b *Builder) Ended(pid uint32) { b.names.jit.Ended(pid) }

// Forget gives up what is known of executables.
func (b *Builder) Forget(executables []unwind.ExeID) {
	for _, id := range executables {
		b.names.symbolizer.Forget(uint32(id))
	}
}

// Hurry lets the Collect under way, and those after it, wait for names as briefly as possible.
func (b *Builder) Hurry() { b.names.readers.hurry() }

// Interrupt ends the reading of names. Those not read yet are missing in what Collect
// returns from now on.
func (b *Builder) Interrupt() { b.names.symbolizer.Close() }

// Close releases everything. Nobody may be adding or collecting.
func (b *Builder) Close() { b.names.close() }

// Collect returns profiles of the samples that were added since the last call. It waits for
// names some seconds at most: those that come later are in the next profiles.
func (b *Builder) Collect() []Profile {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	return b.collect(patienceAfter(time.Since(b.collected)))
}

// CollectWithin is Collect for who has no next profiles: it waits for names as long as that.
func (b *Builder) CollectWithin(patience time.Duration) []Profile {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	return b.collect(patience)
}

// CollectInto adds the samples that were added since the last call to one profile, whatever their targets, and waits
// for names as long as CollectWithin. Who calls it again and again keeps equal stacks once.
func (b *Builder) CollectInto(to *pprof.Builder, patience time.Duration) {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	b.each(patience, func(n *namer, c *targetCounts, a *aggregate) {
		n.addAll(to, c, a)
		b.countProfiled(c.samples())
	})
	to.Forget()
}

// collect names what was added. The caller holds b.collecting.
func (b *Builder) collect(patience time.Duration) (out []Profile) {
	b.each(patience, func(n *namer, c *targetCounts, a *aggregate) {
		made := n.profiles(c, a, &b.clock)
		for _, p := range made {
			b.countProfiled(p.Samples)
		}
		out = append(out, made...)
	})
	return out
}

// each has use called with what each target has counted since the last call. The caller holds b.collecting.
func (b *Builder) each(patience time.Duration, use func(*namer, *targetCounts, *aggregate)) {
	past := b.take()
	defer func() { b.collected = time.Now() }()

	ended := b.names.jit.Gone()
	b.names.refreshDebugFiles()
	var how []naming
	for _, a := range past {
		how = append(how, namingOf(&a.options))
	}
	namer := b.names.namer(how...)
	namer.read(stacksOf(past), patience)
	for _, a := range past {
		for of, c := range a.targets {
			namer.counts = symbolCounts{}
			use(namer, c, a)
			b.countNamed(c.target.ServiceName(), namer.counts)
			delete(a.targets, of) // its stacks are needed no more
		}
	}
	b.countUnnamed(namer.unnamed)
	b.names.trim(ended, namer.unknownKernel)
}

// take returns what was counted since the last call.
func (b *Builder) take() []*aggregate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.startAggregate()
	past := b.past
	b.past = nil
	return past
}
