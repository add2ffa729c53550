package kernel

import (
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// runTime has the kernel measure the run time of BPF programs, which costs each run of any BPF program on this host
// some tens of nanoseconds. It needs Linux 5.8 and CAP_SYS_ADMIN.
type runTime struct {
	counting io.Closer     // nil if the kernel does not measure
	counted  time.Duration // run time at the last read
}

func (r *runTime) setEnabled(on bool) error {
	if on == (r.counting != nil) {
		return nil
	}
	if !on {
		return r.close()
	}
	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("have the kernel count how long BPF programs run: %w", err)
	}
	r.counting = counting
	return nil
}

func (r *runTime) close() error {
	if r.counting == nil {
		return nil
	}
	err := r.counting.Close()
	r.counting = nil
	return err
}

// CountTime starts or stops the measurement of the programs' run time.
func (p *Profiler) CountTime(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runTime.setEnabled(on)
}

// timeRun returns how long the programs have run while CountTime was on. The time of a program includes the programs
// that it calls.
func (p *Profiler) timeRun() (sum time.Duration, err error) {
	if p.runTime.counting == nil {
		return p.runTime.counted, nil
	}
	for _, program := range []*ebpf.Program{p.objects.SampleCpu, p.objects.SampleFault, p.objects.SampleMajor} {
		stats, err := program.Stats()
		if err != nil {
			return 0, fmt.Errorf("read how long BPF programs have run: %w", err)
		}
		sum += stats.Runtime
	}
	p.runTime.counted = sum
	return sum, nil
}
