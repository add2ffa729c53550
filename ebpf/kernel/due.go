package kernel

import (
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
)

// cpuTime holds the times of a sampled CPU, counted from an arbitrary point in the past.
type cpuTime struct {
	busy      time.Duration // not idle
	throttled time.Duration // with the sampling clock stopped, see perf_event_max_sample_rate
	worked    time.Duration // not idle by the kernel's ticks, which continue after the CPU was offline
	taken     uint64        // samples
	online    bool          // busy and worked are known
}

// due counts the samples that were due on busy CPUs.
type due struct{ samples, throttled uint64 }

func (d due) plusDue(more due) due {
	return due{d.samples + more.samples, d.throttled + more.throttled}
}

// accountPeriod adds the samples that were due with the present period to p.due, and starts the next period.
func (p *Profiler) accountPeriod() {
	now := p.cpuTimes()
	p.due = p.due.plusDue(p.dueSince(now))
	p.accounted = now
}

// cpuTimes reads the times of the sampled CPUs.
func (p *Profiler) cpuTimes() map[int]cpuTime {
	times := map[int]cpuTime{}
	kernel, err := procfs.Default.CPUTimes()
	if err != nil {
		return times
	}
	for cpu, clock := range p.clocks {
		if counted, running, err := clock.times(); err == nil {
			t, online := kernel[cpu]
			times[cpu] = cpuTime{running - t.Idle, running - counted, t.Busy, p.rings.taken(cpu), online}
		}
	}
	return times
}

// dueSince returns the samples that were due since accountPeriod.
func (p *Profiler) dueSince(now map[int]cpuTime) (d due) {
	for cpu, t := range now {
		since, ok := p.accounted[cpu]
		switch {
		case !ok:
		case !t.online:
			d.samples += t.taken - since.taken
		case t.busy > since.busy:
			d.samples += uint64((t.busy - since.busy) / p.period)
			d.throttled += uint64(max(t.throttled-since.throttled, 0) / p.period)
		}
	}
	return d
}

// accountEnded adds the samples that were due on CPUs that have been offline, and whose clocks have stood since. The
// busy time after they came back was due as well.
func (p *Profiler) accountEnded(cpus []int) {
	now := p.cpuTimes()
	for _, cpu := range cpus {
		t, ok := now[cpu]
		since, known := p.accounted[cpu]
		if !ok || !known {
			continue
		}
		due := t.taken - since.taken
		if t.online && t.worked > since.worked {
			due = max(due, uint64((t.worked-since.worked)/p.period))
		}
		p.due.samples += due
		delete(p.accounted, cpu)
	}
}
