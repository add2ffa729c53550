package probe

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/common/counter"
	"github.com/headwater/headwater/ebpf/common/limit"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/flame/kind"
)

// interval is how long hits may stay in the kernel's buffers.
const interval = 200 * time.Millisecond

// Completer opens probes and walks stacks; *sampler.Sampler implements it.
type Completer interface {
	OpenProbes() (*kernel.Probes, error)
	CatchUp(until uint64) error
	CompleteHit(h *kernel.ProbeHit) *sampler.Sample
	// Ignore has the kernel leave out further hits of a process where it can, until Target must be asked again.
	Ignore(pid uint32)
}

// Options select the processes whose hits are sampled, and the receiver of the samples.
type Options struct {
	Completer Completer
	// Target returns the target of a process's samples, and whether they are wanted at all.
	Target func(pid uint32) (t *target.Target, wanted bool)
	// Use gets each sample. The sample is valid until Use returns. Use must not call the Prober.
	Use func(*sampler.Sample)
}

// Config configures a Prober.
type Config struct {
	Probes                   []Probe
	UserStacks, KernelStacks bool
}

// Stats are counted since New.
type Stats struct {
	Attached uint64 // probes that are attached now
	Failed   uint64 // probes that could not be attached
	Hits     uint64 // samples of wanted processes
	Dropped  uint64 // values above maxValue, which are not added: the argument may be an int
	Lost     uint64 // samples that were not taken because the kernel's buffer was full
	// LostOf is the part of Lost that belongs to targets, by service_name: of probes without a period that are no
	// software events.
	LostOf map[string]uint64
	// Uncounted is the number of probes that were attached and whose losses are not in LostOf.
	Uncounted uint64
	// Failure is the reason why probes of the configuration are not attached; nil if all are.
	Failure error
	// Errors are the reasons why probes are not attached or their hits not read, and how often each occurred.
	Errors map[string]uint64
}

// LostOfTargets returns the number of lost samples of processes with a target, or of all processes if the samples of a
// probe are not counted by process.
func (s *Stats) LostOfTargets() uint64 {
	if s.Uncounted > 0 {
		return s.Lost
	}
	var sum uint64
	for _, n := range s.LostOf {
		sum += n
	}
	return sum
}

// Counters returns the table of the figures, each with its name, help text, kind and place.
func Counters() []counter.Row[Stats] {
	return []counter.Row[Stats]{
		counter.One(counter.Gauge, "pyroscope_ebpf_probes_attached", "probes_attached",
			"Probes of probe_links that are attached.", func(s *Stats) *uint64 { return &s.Attached }),
		counter.One(counter.Gauge, "pyroscope_ebpf_probes_failed", "probes_failed",
			"Probes of probe_links that could not be attached; the debug info has the errors.",
			func(s *Stats) *uint64 { return &s.Failed }),
		counter.One(counter.Total, "pyroscope_ebpf_probe_samples_total", "probe_samples",
			"Samples of probes, of processes with a target.", func(s *Stats) *uint64 { return &s.Hits }),
		counter.One(counter.Total, "pyroscope_ebpf_probe_values_dropped_total", "probe_values_dropped",
			"Values at probes that were ignored, because they were too large for a size or duration.",
			func(s *Stats) *uint64 { return &s.Dropped }),
		counter.One(counter.Total, "pyroscope_ebpf_probe_samples_lost_total", "probe_samples_lost",
			"Samples of probes of any process, lost because the kernel's buffer was full.",
			func(s *Stats) *uint64 { return &s.Lost }),
		counter.Many("pyroscope_ebpf_probe_samples_lost_by_service_total", "service_name", "probe_samples_lost_of",
			"Part of the lost samples of probes, by target: of probes that have no period and are no software events.",
			func(s *Stats) *map[string]uint64 { return &s.LostOf }),
	}
}

// Prober keeps probes attached. With the zero Config it has no probes, at no cost. It is safe for concurrent use.
type Prober struct {
	options Options

	mu      sync.Mutex
	config  Config
	stopped bool
	probes  *kernel.Probes // nil if there are none
	// attached are the attached probes by their links, byNumber by the kernel's numbers.
	attached map[Probe]*places
	byNumber map[int]attached
	reading  sync.WaitGroup
	stats    Stats
	lost     uint64 // of earlier values of probes
	losses   losses
	errors   limit.Texts
}

// places are the places where a probe is attached: in its file, and in earlier files at its path, which processes may
// still run.
type places struct {
	file    os.FileInfo // the newest file; nil if the probe is in no file
	numbers []int       // of the kernel's probes, the newest last
}

// maxFiles is the number of files at one path in which a probe stays attached.
const maxFiles = 4

// attached is an attached probe.
type attached struct {
	Probe
	kind kind.Kind
}

// New returns a Prober without probes.
func New(o Options) *Prober {
	return &Prober{
		options: o, attached: map[Probe]*places{}, byNumber: map[int]attached{}, errors: limit.Texts{Most: 64},
	}
}

// Update makes a configuration current. It detaches the probes that the configuration does not have, and keeps the
// probes that both have. It cannot fail: probes that cannot be attached are counted, and Retry tries them again.
func (p *Prober) Update(c Config) {
	p.Flush() // by the old configuration
	p.mu.Lock()
	p.config = c
	wanted := map[Probe]bool{}
	for _, link := range c.Probes {
		wanted[link] = true
	}
	for link, at := range p.attached {
		if !wanted[link] {
			p.detach(at, len(at.numbers))
			delete(p.attached, link)
		}
	}
	p.attach()
	idle := p.release()
	p.mu.Unlock()
	p.close(idle)
}

// Retry attaches the probes that could not be attached before, and the probes whose file was replaced.
func (p *Prober) Retry() {
	p.mu.Lock()
	p.attach()
	idle := p.release()
	p.mu.Unlock()
	p.close(idle)
}

// detach removes the first count places of a probe. The caller holds p.mu.
func (p *Prober) detach(at *places, count int) {
	for _, number := range at.numbers[:count] {
		p.noteError(p.probes.Remove(number))
		delete(p.byNumber, number)
	}
	at.numbers = at.numbers[count:]
}

// attach attaches the probes that are not attached. The caller holds p.mu.
func (p *Prober) attach() {
	p.stats.Failed, p.stats.Failure = 0, nil
	for _, link := range p.config.Probes {
		if at, ok := p.attached[link]; ok && !at.replaced(link) || p.stopped {
			continue
		}
		if err := p.attachOne(link); err != nil {
			p.stats.Failed++
			p.stats.Failure = errors.Join(p.stats.Failure, err)
			p.errors.Add("probe \""+link.Link+"\" of probe_links is not attached: "+err.Error(), 1)
		}
	}
}

func (p *Prober) attachOne(link Probe) error {
	var file os.FileInfo // read before the search for functions, as the file may be replaced during it
	var noFile error
	if link.Path != "" {
		file, noFile = os.Stat(link.Path)
	}
	events, err := link.Events()
	if err = cmp.Or(err, noFile); err != nil {
		return err
	}
	k, err := kind.OfProbe(link.Info())
	if err != nil {
		return err
	}
	if p.probes == nil {
		if p.probes, err = p.options.Completer.OpenProbes(); err != nil {
			return err
		}
		probes := p.probes
		p.reading.Go(func() { p.readHits(probes) })
	}
	number, err := p.probes.Add(events)
	if err != nil {
		return err
	}
	at := p.attached[link]
	if at == nil {
		at = &places{}
		p.attached[link] = at
	}
	at.file, at.numbers = file, append(at.numbers, number)
	p.byNumber[number] = attached{link, k}
	if !p.probes.IsCounted(number) {
		p.stats.Uncounted++
	}
	p.detach(at, max(0, len(at.numbers)-maxFiles))
	return nil
}

// replaced reports whether another file is at the probe's path now. A missing file does not count: it may be in the
// middle of being written.
func (at *places) replaced(link Probe) bool {
	if at.file == nil {
		return false
	}
	now, err := os.Stat(link.Path)
	return err == nil && !os.SameFile(at.file, now)
}

// release returns the buffers for closing if no probe is attached. The caller holds p.mu.
func (p *Prober) release() *kernel.Probes {
	if len(p.attached) > 0 {
		return nil
	}
	idle := p.probes
	p.probes, p.lost = nil, p.stats.Lost
	p.losses.clear()
	return idle
}

// close stops and closes probes that are no longer used.
func (p *Prober) close(probes *kernel.Probes) {
	if probes == nil {
		return
	}
	err := probes.Stop()
	p.reading.Wait()
	err = errors.Join(err, probes.Close())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteError(err)
}

// readHits makes samples of hits until the probes are stopped.
func (p *Prober) readHits(probes *kernel.Probes) {
	for {
		err := probes.Wait(time.Now().Add(interval))
		if errors.Is(err, kernel.ErrClosed) {
			return
		}
		p.mu.Lock()
		p.noteError(err)
		if p.probes == probes {
			p.drain()
		}
		p.mu.Unlock()
		if err != nil {
			time.Sleep(interval)
		}
	}
}

// Flush hands all hits until now to Use, and counts the lost ones.
func (p *Prober) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probes == nil {
		return
	}
	hits := map[uint32]uint64{} // counted before the hits are read: a counted hit is then read, or lost
	p.noteError(p.probes.Counts(func(pid uint32, n uint64) { hits[pid] = n }))
	p.drain()
	lost, err := p.probes.Lost()
	p.stats.Lost = max(p.stats.Lost, p.lost+lost)
	p.noteError(err)
	p.losses.compare(hits, p.stats.Lost, p.options.Target)
}

// drain hands hits to Use. The caller holds p.mu.
func (p *Prober) drain() {
	if p.probes == nil {
		return
	}
	p.noteError(p.options.Completer.CatchUp(clock.Monotonic()))
	lost, err := p.probes.Read(p.useHit)
	p.stats.Lost = max(p.stats.Lost, p.lost+lost)
	p.noteError(err)
}

// useHit makes a sample of a hit. The caller holds p.mu.
func (p *Prober) useHit(h *kernel.ProbeHit) {
	of, ok := p.byNumber[h.Probe]
	if !ok || h.PID == 0 { // the idle task
		return
	}
	p.noteError(p.options.Completer.CatchUp(h.Time)) // the process may have started since drain caught up
	target, wanted := p.options.Target(h.PID)
	if !wanted {
		p.options.Completer.Ignore(h.PID)
		return
	}
	if h.Counted {
		p.losses.addRead(h.PID, target)
	}
	value, sensible := of.value(h)
	if !sensible {
		p.stats.Dropped++
	}
	if value == 0 { // no value to add
		return
	}
	s := p.options.Completer.CompleteHit(h)
	s.Strip(p.config.UserStacks, p.config.KernelStacks)
	s.Kind, s.Value, s.Target = of.kind, value, target
	p.stats.Hits++
	p.options.Use(s)
}

// maxValue is the largest value that is added: larger ones are neither sizes nor durations, and sums must not overflow.
const maxValue = 1 << 40

// value returns the value that a hit adds. Numbers from -4096 to -1, of 32 and of 64 bits, count as 0: functions return
// them for errors. A value above maxValue is not sensible.
func (a *attached) value(h *kernel.ProbeHit) (value uint64, sensible bool) {
	switch {
	case a.Value == Calls:
		return h.Hits, true
	case !h.InUser:
		return 0, true
	case a.Value == Returned:
		value = h.Returned()
	default:
		value = h.Argument(int(a.Value))
	}
	if a.Int {
		value = uint64(int64(int32(value)))
	}
	switch failed := value>>12 == 1<<20-1 || value>>12 == 1<<52-1; {
	case failed:
		return 0, true
	case value > maxValue:
		return 0, false
	}
	return value * h.Hits, true
}

// Stop detaches all probes for good. When it returns, Use has got all hits.
func (p *Prober) Stop() {
	p.mu.Lock()
	if p.probes != nil {
		p.noteError(p.probes.Disable()) // then no hit comes between the counts and the last read
	}
	p.mu.Unlock()
	p.Flush()
	p.mu.Lock()
	p.stopped = true
	clear(p.attached)
	idle := p.release()
	p.mu.Unlock()
	p.close(idle)
}

// Close detaches all probes for good.
func (p *Prober) Close() error {
	p.Stop()
	return nil
}

// noteError counts an error. The caller holds p.mu.
func (p *Prober) noteError(err error) {
	if err != nil {
		p.errors.Add("probes: "+err.Error(), 1)
	}
}

// Stats returns the counters. The caller owns the result.
func (p *Prober) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.stats
	out.Attached, out.Errors = uint64(len(p.attached)), p.errors.Counts()
	out.LostOf = p.losses.byService()
	return out
}
