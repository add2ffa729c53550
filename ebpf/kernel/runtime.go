package kernel

import (
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// runTime has the kernel count how long BPF programs run, which costs each run of any of this host some tens of
// nanoseconds. Kernels before 5.8 cannot be asked to, and others need CAP_SYS_ADMIN.
type runTime struct {
	counting io.Closer     // nil: it does not count
	counted  time.Duration // until it was read the last time
}

func (r *runTime) set(on bool) error {
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

// CountTime has the kernel count how long the programs run, or no longer.
func (p *Profiler) CountTime(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runTime.set(on)
}

// ran returns how long the programs have run while that was counted. A program that calls another one is charged for
// both.
func (p *Profiler) ran() (sum time.Duration, err error) {
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
