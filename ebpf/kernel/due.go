package kernel

import (
	"time"

	"github.com/headwater/headwater/ebpf/procfs"
)

// cpuTime are the times of a CPU that is sampled, since some time in the past.
type cpuTime struct {
	busy      time.Duration // running something
	throttled time.Duration // without its clock, see perf_event_max_sample_rate
}

// due are samples that busy CPUs should have had.
type due struct{ samples, throttled uint64 }

func (d due) plus(more due) due { return due{d.samples + more.samples, d.throttled + more.throttled} }

// accountPeriod adds what was due at the present period, and begins the next one.
func (p *Profiler) accountPeriod() {
	now := p.cpuTimes()
	p.due = p.due.plus(p.dueSince(now))
	p.accounted = now
}

// cpuTimes reads the times of the CPUs that are sampled.
func (p *Profiler) cpuTimes() map[int]cpuTime {
	times := map[int]cpuTime{}
	idle, err := procfs.Default.IdleTimes()
	if err != nil {
		return times
	}
	for cpu, clock := range p.clocks {
		if counted, running, err := clock.times(); err == nil {
			times[cpu] = cpuTime{busy: running - idle[cpu], throttled: running - counted}
		}
	}
	return times
}

// dueSince is what was due since accountPeriod.
func (p *Profiler) dueSince(now map[int]cpuTime) (d due) {
	for cpu, t := range now {
		if since, ok := p.accounted[cpu]; ok && t.busy > since.busy {
			d.samples += uint64((t.busy - since.busy) / p.period)
			d.throttled += uint64(max(t.throttled-since.throttled, 0) / p.period)
		}
	}
	return d
}
