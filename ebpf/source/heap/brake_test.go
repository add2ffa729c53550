package heap

import (
	"errors"
	"reflect"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestBrake: a process whose traps take more of its CPU time than the limit is paused, for twice as long the next time.
// Other processes are not paused, nor is a process whose traps cost little of a CPU, nor one that has ended.
func TestBrake(t *testing.T) {
	const slow, light, idle, ended = 1, 2, 3, 4
	now := time.Unix(1000, 0)
	b := newBrake(now)
	b.limit, b.trap = 0.1, trapCost{emulated: 5 * time.Microsecond, stepped: 20 * time.Microsecond}
	traps, cpu := map[uint32]kernel.HeapTraps{}, map[uint32]time.Duration{}
	cpuTime := func(pid uint32) (time.Duration, error) {
		if pid == ended {
			return 0, errors.New("no such process")
		}
		return cpu[pid], nil
	}
	look := func() []uint32 {
		for pid, n := range map[uint32]uint64{slow: 2000, light: 200, idle: 60, ended: 2000} {
			had := traps[pid]
			traps[pid] = kernel.HeapTraps{Emulated: had.Emulated + n, Stepped: had.Stepped + n}
		}
		cpu[slow] += 100 * time.Millisecond  // 50 ms of this are traps
		cpu[light] += 100 * time.Millisecond // 5 ms
		cpu[idle] += 2 * time.Millisecond    // nearly all are traps, but they are 1.5 of 100 ms
		now = now.Add(brakeEvery)
		return b.lookAtTraps(now, traps, cpuTime)
	}
	until := func(looks int) {
		t.Helper()
		for range looks {
			require.Empty(t, look())
		}
		require.Equal(t, []uint32{slow}, look())
	}
	until(2) // the CPU time is known from the first one on; then each adds 40 ms beyond the limit
	require.Empty(t, look(), "it is paused")
	require.True(t, b.holds(slow, now))
	paused := b.allPaused(now)
	require.Len(t, paused, 1)
	require.InDelta(t, 0.5, paused[0].Share, 0.01)
	require.Equal(t, "process 1: probes took 50 % of its CPU time", paused[0].String())

	before := now
	require.False(t, b.endsPause(now))
	now = paused[0].Until
	require.True(t, b.endsPause(now))
	b.looked = now
	until(1)
	require.Equal(t, 2*firstPause, b.allPaused(now)[0].Until.Sub(now))
	require.Greater(t, now.Sub(before), firstPause-time.Second)
	b.forget(now, func(pid uint32) bool { return pid != slow })
	require.Empty(t, b.allPaused(now), "it has ended")
}

// Delays of a Profiler: until probes are removed, and until a program whose pause is over has them again.
const (
	removeAfter = 200 * time.Millisecond
	attachAfter = searchEvery
)

// allocating is a program that needs CPU time for itself, and some traps in each second of that.
type allocating struct {
	needs func(at time.Duration) float64 // CPUs that it keeps busy
	rate  float64                        // traps in a second of its own CPU time

	traps     float64
	cpu, cost time.Duration
}

// run lets the program run for some time, with or without probes.
func (a *allocating) run(at, d time.Duration, trap time.Duration, probed bool) {
	cpu := float64(d) * a.needs(at)
	if probed {
		traps := cpu * a.rate / (1 + a.rate*trap.Seconds()) / float64(time.Second)
		a.traps += traps
		a.cost += time.Duration(traps * float64(trap))
	}
	a.cpu += time.Duration(cpu)
}

// TestBrakeBounds: traps take no more than the limit of a program's CPU time, and what they take until they are
// removed, however often the program allocates, and when. The first seconds are bounded, and so is what pauses that are
// over cost. A program that stays within the limit is never paused.
func TestBrakeBounds(t *testing.T) {
	const trap, limit = 10 * time.Microsecond, 0.1
	always := func(time.Duration) float64 { return 1 }
	for name, test := range map[string]struct {
		program allocating
		threads float64 // that are in traps at a time, at most
		paused  bool
	}{
		"within the limit":            {allocating{needs: always, rate: 9000}, 1, false},
		"a bit more":                  {allocating{needs: always, rate: 15_000}, 1, true},
		"half of it":                  {allocating{needs: always, rate: 100_000}, 1, true},
		"nothing but calls":           {allocating{needs: always, rate: 20_000_000}, 1, true},
		"on 16 CPUs":                  {allocating{needs: func(time.Duration) float64 { return 16 }, rate: 2e7}, 16, true},
		"on 16 CPUs within the limit": {allocating{needs: func(time.Duration) float64 { return 16 }, rate: 9000}, 16, false},
		"a tenth of a second each second": {allocating{rate: 2e7, needs: func(at time.Duration) float64 {
			return float64(at % time.Second / (900 * time.Millisecond))
		}}, 1, true},
		"from the 30th second on": {allocating{rate: 2e7, needs: func(at time.Duration) float64 {
			return float64(min(1, at/(30*time.Second)))
		}}, 1, true},
	} {
		p := test.program
		begin := time.Unix(1000, 0)
		b := newBrake(begin)
		b.limit, b.trap = limit, trapCost{emulated: trap, stepped: trap}
		probed, removed, attached := true, time.Duration(1<<62), time.Duration(1<<62)
		pauses := 0
		const step = 10 * time.Millisecond
		for at := time.Duration(0); at < 2*time.Minute; at += step {
			switch {
			case at >= removed:
				probed, removed = false, 1<<62
			case at >= attached:
				probed, attached = true, 1<<62
			}
			p.run(at, step, trap, probed)
			bursts := time.Duration(pauses) + 1
			// A look until the CPU time is known, looks until the burst is over, and the removal.
			most := time.Duration(limit*float64(p.cpu)) + bursts*(brakeBurst+
				time.Duration(test.threads*float64(3*brakeEvery+removeAfter)))
			require.LessOrEqual(t, p.cost, most, "%s, after %v", name, at)
			if (at+step)%brakeEvery != 0 {
				continue
			}
			now := begin.Add(at + step)
			if b.endsPause(now) {
				attached = at + attachAfter
			}
			for range b.lookAtTraps(now, map[uint32]kernel.HeapTraps{1: {Stepped: uint64(p.traps)}},
				func(uint32) (time.Duration, error) {
					return p.cpu / (10 * time.Millisecond) * (10 * time.Millisecond), nil
				}) {
				removed = at + removeAfter
				pauses++
			}
		}
		require.Equal(t, test.paused, pauses > 0, name)
		require.LessOrEqual(t, float64(p.cost), 1.05*limit*float64(p.cpu), "%s: of two minutes", name)
	}
}

// TestEmulatedTrap: the function by which the cost of a trap at an emulated instruction is measured begins with one.
func TestEmulatedTrap(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "heap knows the emulated instructions of amd64 alone")
	}
	of := func(f func()) []byte { return unsafe.Slice((*byte)(reflect.ValueOf(f).UnsafePointer()), 2) }
	require.True(t, emulated(of(emulatedTrap)))
	require.False(t, emulated(of(steppedTrap)))
}
