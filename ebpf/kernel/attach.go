package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Attach runs the sampling program at every sample of a perf event that the caller has opened, such as one of a single
// task. The caller owns the event: its samples end when the caller closes it. They are not part of Counters.Expected.
func (p *Profiler) Attach(event int) error {
	if err := unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_SET_BPF, p.objects.SampleCpu.FD()); err != nil {
		return fmt.Errorf("attach to a perf event: %w", err)
	}
	if err := unix.IoctlSetInt(event, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("enable a perf event: %w", err)
	}
	return nil
}
