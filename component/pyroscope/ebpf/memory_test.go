package ebpf

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alecthomas/units"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/flame/server"
	"github.com/headwater/headwater/integration/testkit"
)

// limitedMemory is a memory with a limit, for a process that takes fixed bytes and its caches, which are as large as
// their bounds allow.
func limitedMemory(limit, fixed int64, rounds int) (m *memory, taken []int64) {
	most := caches{64 << 20, 32 << 20, 32 << 20}
	m = &memory{}
	m.setLimit(limit, most)
	used := caches{6 << 20, 32 << 20, 32 << 20}
	for range rounds {
		sum := fixed
		for i := range used {
			if i != tableCache { // which stay as they are
				used[i] = m.bound[i]
			}
			sum += used[i]
		}
		taken = append(taken, sum)
		m.round(sum, used)
	}
	return m, taken
}

func TestMemoryKeepsLimit(t *testing.T) {
	m, taken := limitedMemory(80<<20, 40<<20, 2)
	require.Equal(t, []int64{110 << 20, 80 << 20}, taken, "at once")
	require.Equal(t, caches{6 << 20, 2 << 20, 32 << 20}, m.bound, "symbols went, tables grow no more")
	require.Equal(t, "at most 2.0 MiB of symbols and 32.0 MiB of profiles stay in memory, to keep the memory_limit of "+
		"80.0 MiB: the process has 80.0 MiB", m.String())

	m, taken = limitedMemory(60<<20, 40<<20, 2)
	require.EqualValues(t, 60<<20, taken[1])
	require.Equal(t, caches{6 << 20, 2 << 20, 12 << 20}, m.bound, "then profiles")

	m, taken = limitedMemory(48<<20, 40<<20, 3)
	require.EqualValues(t, 49<<20, taken[2])
	require.Equal(t, "above the memory_limit of 48.0 MiB: the process has 49.0 MiB", m.String())

	m, taken = limitedMemory(0, 40<<20, 2)
	require.Equal(t, taken[0], taken[1])
	require.Empty(t, m.String())
}

func TestMemoryGrowsAgain(t *testing.T) {
	m, _ := limitedMemory(60<<20, 40<<20, 2)
	used := caches{6 << 20, 2 << 20, 12 << 20}
	require.True(t, m.round(40<<20, used))
	require.Equal(t, caches{6 << 20, 2 << 20, 26 << 20}, m.bound, "profiles, which went last, up to nine tenths")
	require.True(t, m.round(40<<20, used))
	require.Equal(t, caches{6 << 20, 10 << 20, 32 << 20}, m.bound)
	require.False(t, m.round(50<<20, used), "between the shares nothing changes")
	m.setLimit(0, m.most)
	require.Equal(t, m.most, m.bound)
}

func TestMemoryLimit(t *testing.T) {
	args := fastArgs(&fakeReceiver{})
	args.Settings.MemoryLimit = 100 << 20
	l := newLab(t, args)
	var taken atomic.Int64
	taken.Store(50 << 20)
	l.memory = taken.Load
	stop := l.run(t)
	s := l.session(t, 0)
	testkit.Eventually(t, "in debug info", func() bool { return l.DebugInfo().(DebugInfo).Session.Memory > 50<<20 })
	require.Equal(t, symbol.DefaultTableBytes, s.newest().SymbolBytes)

	taken.Store(200 << 20)
	testkit.Eventually(t, "symbols go", func() bool { return s.newest().SymbolBytes == 2<<20 })
	require.EqualValues(t, 4<<20, s.newest().TableBytes)
	testkit.Eventually(t, "profiles go", func() bool { return l.page.MaxBytes() == 1<<20 })
	testkit.Eventually(t, "in the health", func() bool {
		return strings.Contains(l.CurrentHealth().Message, "above the memory_limit of 100.0 MiB: the process has 200.0 MiB")
	})

	require.Contains(t, l.log.String(), "the limits of caches follow memory_limit")

	args.Settings.MemoryLimit = 0
	require.NoError(t, l.Update(args))
	testkit.Eventually(t, "no limit any more", func() bool { return s.newest().SymbolBytes == symbol.DefaultTableBytes })
	testkit.Eventually(t, "nor of profiles", func() bool { return l.page.MaxBytes() == server.DefaultMaxBytes })
	require.Equal(t, component.HealthTypeHealthy, l.CurrentHealth().Health)
	require.NoError(t, stop())
}

func TestOwnMemory(t *testing.T) {
	require.Greater(t, ownMemory(), int64(4<<20))
	require.Less(t, ownMemory(), int64(4*units.GiB))
}
