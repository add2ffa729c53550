package ebpf

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/integration/testkit"
)

// governed runs rounds in which profiling costs fixed percent, and perShare percent more at the configured rate. It
// returns the cost of the last round, and how often the share changed in the second half.
func governed(g *governor, rounds int, fixed, perShare float64) (percent float64, changes int) {
	now := spent{at: time.Unix(1000, 0)}
	g.round(now)
	const length = 15 * time.Second
	for n := range rounds {
		percent = fixed + perShare*g.current()
		now.at = now.at.Add(length)
		now.agent += time.Duration(percent / 2 / 100 * float64(length))
		now.bpf += time.Duration(percent / 2 / 100 * float64(length))
		if g.round(now) && n >= rounds/2 {
			changes++
		}
	}
	return percent, changes
}

func TestGovernor(t *testing.T) {
	for _, c := range []struct {
		name                   string
		limit, fixed, perShare float64
		share                  float64 // wanted
	}{
		{"no limit", 0, 10, 100, 1},
		{"below", 5, 1, 2, 1},
		{"all of it by samples", 1, 0, 4, 0.9 / 4},
		{"half of it fixed", 2, 1, 4, (2*aimedShare - 1) / 4},
		{"nothing helps", 1, 2, 0.5, leastShare},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &governor{}
			g.setLimit(c.limit)
			percent, changes := governed(g, 40, c.fixed, c.perShare)
			require.InDelta(t, c.share, g.current(), 0.2*c.share)
			require.Zero(t, changes, "it settles")
			if c.limit > 0 && c.share > leastShare {
				require.LessOrEqual(t, percent, c.limit)
			}
		})
	}
}

func TestGovernorRaisesTheRateAgain(t *testing.T) {
	g := &governor{}
	g.setLimit(1)
	governed(g, 10, 0.1, 20)
	require.Less(t, g.current(), 0.1)
	require.Contains(t, g.String(), "to keep the overhead_limit of 1 %")
	governed(g, 10, 0.1, 0.5)
	require.Equal(t, 1.0, g.current())
	require.Empty(t, g.String())

	governed(g, 10, 0.1, 20)
	g.setLimit(0)
	require.Equal(t, 1.0, g.current(), "no limit any more")
}

// A new limit leaves the share unchanged: the next round determines it.
func TestGovernorKeepsTheShare(t *testing.T) {
	g := &governor{}
	g.setLimit(1)
	governed(g, 10, 0, 20)
	was := g.current()
	g.setLimit(2)
	require.Equal(t, was, g.current())
}

func TestGovernedOptions(t *testing.T) {
	o := ebpf.Options{}
	o.SampleRate = 100
	o.OffCPU.Rate = 20
	o.Periods[kind.PageFaults] = 256
	g := &governor{limit: 1, share: 0.25}
	g.govern(&o)
	require.Equal(t, 25, o.SampleRate)
	require.EqualValues(t, 1024, o.Periods[kind.PageFaults])
	require.EqualValues(t, 5, o.OffCPU.Rate)
	require.True(t, o.CountBPFTime)

	g.share = 1.0 / 1000
	o.Periods[kind.PageFaults] = ebpf.MaxPeriod
	g.govern(&o)
	require.Equal(t, ebpf.MinSampleRate, o.SampleRate)
	require.EqualValues(t, ebpf.MaxPeriod, o.Periods[kind.PageFaults])
	require.NoError(t, o.Validate())
}

func TestOverheadLimit(t *testing.T) {
	args := fastArgs(&fakeReceiver{})
	args.Settings.SampleRate, args.Settings.OverheadLimit = 1000, 50
	l := newLab(t, args)
	begun := time.Now()
	l.cpuTime = func() time.Duration { return 4 * time.Since(begun) } // 400 % of a CPU
	stop := l.run(t)
	s := l.session(t, 0)
	require.True(t, s.newest().CountBPFTime)
	testkit.Eventually(t, "the lowest rate", func() bool { return s.newest().SampleRate == 31 })
	testkit.Eventually(t, "in debug info", func() bool { return l.DebugInfo().(DebugInfo).Session.RateCurrent == 31 })
	require.Equal(t, 1000, l.DebugInfo().(DebugInfo).Session.SampleRate)
	require.Regexp(t, `^\d+\.\d+ % of one CPU \(agent \d+\.\d+, BPF 0\.00\)$`, l.DebugInfo().(DebugInfo).Session.Overhead)
	require.Equal(t, 31, l.pageStatus().SampleRate)
	testkit.Eventually(t, "in the health", func() bool {
		return strings.Contains(l.CurrentHealth().Message, "above the overhead_limit of 50 % at the lowest rate")
	})

	require.Contains(t, l.log.String(), "the rate of sampling follows overhead_limit")

	args.Settings.OverheadLimit = 0
	require.NoError(t, l.Update(args))
	testkit.Eventually(t, "no limit any more",
		func() bool { return s.newest().SampleRate == 1000 && !s.newest().CountBPFTime })
	require.Equal(t, component.HealthTypeHealthy, l.CurrentHealth().Health)
	require.NoError(t, stop())
}

func TestOwnCPUTime(t *testing.T) {
	before := ownCPUTime()
	sum := 0
	for n := range 50_000_000 {
		sum += n % 7
	}
	require.Greater(t, ownCPUTime(), before, sum)
}
