package heap

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kernel"
)

// TestBrake: a process whose traps take more of its CPU time than the limit is paused, for twice as long the next time.
// Other processes are not paused, nor is a process whose traps cost little of a CPU.
func TestBrake(t *testing.T) {
	const slow, light, idle, ended = 1, 2, 3, 4
	b := newBrake()
	b.limit, b.stepped = 0.1, 20*time.Microsecond
	now := time.Unix(1000, 0)
	traps := map[uint32]kernel.HeapTraps{}
	cpu := map[uint32]time.Duration{}
	cpuTime := func(pid uint32) (time.Duration, error) {
		if pid == ended {
			return 0, errors.New("no such process")
		}
		return cpu[pid], nil
	}
	look := func() []uint32 {
		for pid, n := range map[uint32]uint64{slow: 10_000, light: 1000, idle: 300, ended: 10_000} {
			had := traps[pid]
			traps[pid] = kernel.HeapTraps{Emulated: had.Emulated + n, Stepped: had.Stepped + n}
		}
		cpu[slow] += 500 * time.Millisecond  // 250 ms of this are traps
		cpu[light] += 500 * time.Millisecond // 25 ms
		cpu[idle] += 8 * time.Millisecond    // nearly all are traps, but they are 7.5 of 500 ms
		now = now.Add(brakeEvery)
		return b.look(now, traps, cpuTime)
	}
	require.Empty(t, look(), "nothing is known of before")
	require.Equal(t, []uint32{slow}, look())
	require.Empty(t, look(), "it is paused")
	require.True(t, b.holds(slow, now))
	paused := b.all(now)
	require.Len(t, paused, 1)
	require.InDelta(t, 0.5, paused[0].Share, 0.01)
	require.Equal(t, "process 1: probes took 50 % of its CPU time", paused[0].String())

	before := now
	require.False(t, b.ends(now))
	now = paused[0].Until
	require.True(t, b.ends(now))
	b.looked = now
	require.Equal(t, []uint32{slow}, look())
	require.Equal(t, 2*firstPause, b.all(now)[0].Until.Sub(now))
	require.Greater(t, now.Sub(before), firstPause-time.Second)
	b.forget(now, func(pid uint32) bool { return pid != slow })
	require.Empty(t, b.all(now), "it has ended")
}
