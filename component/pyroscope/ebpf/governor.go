package ebpf

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf"
)

// The governor aims at rates that cost aimedShare of the limit, so that it need not change them every round. It bounds
// each change of the rates.
const (
	aimedShare   = 0.9
	fastestDrop  = 4
	fastestRaise = 2
	leastRaise   = 1.1
)

// Limits of overhead_limit, in percent of one CPU.
const (
	leastLimit = 0.01
	mostLimit  = 100_000.0
)

// leastShare of the configured rates always remains: lower rates would save little and show little.
const leastShare = 1.0 / 32

// governor lowers the sampling rates while profiling costs more than a limit, and raises them again to at most the
// configured rates. The weight of a sample follows the rate, so totals stay correct.
type governor struct {
	limit float64 // percent of one CPU; 0: none
	share float64 // of the configured rates; 0 means 1
	last  spent   // at the end of the last round
	cost  cost    // of the last round
}

// spent is the cost of profiling up to a point in time.
type spent struct {
	at         time.Time
	agent, bpf time.Duration // CPU time of this process, and in BPF programs
}

// cost is the cost of profiling, in percent of one CPU.
type cost struct{ agent, bpf float64 }

func (c cost) sum() float64 { return c.agent + c.bpf }

func (c cost) String() string {
	return fmt.Sprintf("%.2f %% of one CPU (agent %.2f, BPF %.2f)", c.sum(), c.agent, c.bpf)
}

// setLimit applies a limit, 0 for none.
func (g *governor) setLimit(percent float64) {
	if percent != g.limit {
		*g = governor{limit: percent, share: g.share}
	}
	if percent == 0 {
		g.share = 1
	}
}

// started says that a session starts, with new counters. The cost of its start belongs to no round.
func (g *governor) started() { g.last, g.cost = spent{}, cost{} }

// round takes the cost up to the end of a round, and reports whether the rates must change.
func (g *governor) round(now spent) (changed bool) {
	before := g.last
	g.last = now
	wall := now.at.Sub(before.at)
	if g.limit == 0 || before.at.IsZero() || wall <= 0 {
		return false
	}
	percent := func(d time.Duration) float64 { return 100 * float64(max(0, d)) / float64(wall) }
	g.cost = cost{percent(now.agent - before.agent), percent(now.bpf - before.bpf)}
	return g.adapt(g.limit / max(g.cost.sum(), g.limit/1000))
}

// adapt changes the share, given that profiling may cost room times its current cost.
func (g *governor) adapt(room float64) (changed bool) {
	was := g.current()
	share := was * aimedShare * room
	if room >= 1 && share < was*leastRaise {
		return false
	}
	share = min(max(share, was/fastestDrop), was*fastestRaise)
	g.share = min(max(share, leastShare), 1)
	return g.share != was
}

func (g *governor) current() float64 {
	if g.share == 0 {
		return 1
	}
	return g.share
}

// govern lowers the rates in options to the current share.
func (g *governor) govern(o *ebpf.Options) {
	o.CountBPFTime = g.limit > 0
	share := g.current()
	o.SampleRate = max(ebpf.MinSampleRate, int(float64(o.SampleRate)*share+0.5))
	if o.OffCPU.Rate > 0 {
		o.OffCPU.Rate = max(1, int(float64(o.OffCPU.Rate)*share+0.5))
	}
	for k, period := range o.Periods {
		o.Periods[k] = min(int64(float64(period)/share+0.5), ebpf.MaxPeriod)
	}
}

// String describes the effect of the limit; it is empty if there is none.
func (g *governor) String() string {
	switch {
	case g.limit == 0 || g.current() == 1 && g.cost.sum() <= g.limit:
		return ""
	case g.current() > leastShare:
		return fmt.Sprintf("sampling at %.0f %% of the configured rate, to keep the overhead_limit of %g %%: profiling "+
			"costs %s", 100*g.current(), g.limit, g.cost)
	default:
		return fmt.Sprintf("above the overhead_limit of %g %% at the lowest rate: profiling costs %s", g.limit, g.cost)
	}
}

// ownCPUTime returns the CPU time of this process so far.
func ownCPUTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
