package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/flame/kind"
)

// events are the perf events of one kind, one for each CPU and for all tasks. Each takes a sample after every period
// events on its CPU.
type events struct {
	byCPU map[int]*perfEvent
}

// eventOf returns the software event of a kind, and the BPF program that sets the kind of its samples.
func (p *Profiler) eventOf(k kind.Kind) (config uint64, program *ebpf.Program, err error) {
	switch k {
	case kind.PageFaults:
		return unix.PERF_COUNT_SW_PAGE_FAULTS, p.objects.SampleFault, nil
	case kind.MajorFaults:
		return unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, p.objects.SampleMajor, nil
	}
	return 0, nil, fmt.Errorf("sample %s: it is no event", k)
}

// linkEvents lets the programs of events tail-call the program that takes samples.
func (p *Profiler) linkEvents() error {
	if err := p.objects.Takers.Put(uint32(0), p.objects.SampleCpu); err != nil {
		return fmt.Errorf("link BPF programs: %w", err)
	}
	return nil
}

// SetEvents samples every period-th event of a kind on every online CPU; period 0 stops it. It adds CPUs that came
// online since the last call. The kinds are page faults and major faults.
func (p *Profiler) SetEvents(k kind.Kind, period uint64) error {
	config, program, err := p.eventOf(k)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if period == 0 {
		return p.stopEvents(k)
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return fmt.Errorf("find online CPUs: %w", err)
	}
	of := p.events[k]
	if of == nil {
		of = &events{byCPU: map[int]*perfEvent{}}
		p.events[k] = of
	}
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: config, Sample: period, Bits: unix.PerfBitDisabled,
	}
	var errs []error
	for _, cpu := range cpus {
		if err := of.start(&attr, cpu, program.FD()); err != nil {
			errs = append(errs, fmt.Errorf("sample %s: %w", k, err))
		}
	}
	errs = append(errs, of.dropCPUs(func(cpu int) bool { return !slices.Contains(cpus, cpu) }))
	return errors.Join(errs...)
}

// start starts sampling on a CPU, or changes the period.
func (e *events) start(attr *unix.PerfEventAttr, cpu, program int) error {
	if event, ok := e.byCPU[cpu]; ok {
		return event.setPeriod(attr.Sample)
	}
	event, err := openPerfEvent(attr, cpu)
	if err != nil {
		return err
	}
	if err := event.attach(program); err != nil {
		return errors.Join(err, event.close())
	}
	e.byCPU[cpu] = event
	return nil
}

// dropCPUs closes the events of some CPUs.
func (e *events) dropCPUs(which func(cpu int) bool) error {
	var errs []error
	for cpu, event := range e.byCPU {
		if which(cpu) {
			errs = append(errs, event.close())
			delete(e.byCPU, cpu)
		}
	}
	return errors.Join(errs...)
}

// stopEvents stops sampling a kind. The caller holds p.mu.
func (p *Profiler) stopEvents(k kind.Kind) error {
	of := p.events[k]
	if of == nil {
		return nil
	}
	delete(p.events, k)
	return of.dropCPUs(func(int) bool { return true })
}
