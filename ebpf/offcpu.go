package ebpf

import (
	"time"

	"github.com/headwater/headwater/ebpf/kernel"
)

// Limits of the rate of OffCPU, in passes a second.
const (
	DefaultOffCPURate = 10
	MaxOffCPURate     = 1000
)

// offCPUReads is how many stacks a pass reads at most: some 50 us each, so a few percent of a CPU at the default rate.
const offCPUReads = 64

// OffCPU configures the profiling of time that threads spend on no CPU. The zero value turns it off.
type OffCPU struct {
	Rate   int                  // passes over all threads a second, at most MaxOffCPURate; 0 means off
	States []kernel.ThreadState // of the threads that are shown; none means all
	Wakers bool                 // have samples name the task that ended a wait, by profile.LabelWaker
}

// DefaultOffCPUStates returns the states of threads that wait, also for a CPU. Threads in all other states were
// stopped.
func DefaultOffCPUStates() []kernel.ThreadState {
	return []kernel.ThreadState{kernel.Runnable, kernel.Sleeping, kernel.Uninterruptible}
}

// period returns the time that a sample without a value stands for, in ns.
func (o *OffCPU) period() int64 {
	if o.Rate == 0 {
		return 0
	}
	return int64(time.Second) / int64(o.Rate)
}
