package ebpf

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/integration/testkit"
)

// TestOverdueRound: a round that does not end is reported while it lasts, counted and
// logged once, and forgotten when rounds end again.
func TestOverdueRound(t *testing.T) {
	l := newLab(t, fastArgs())
	l.run(t)
	s := l.session(t, 0)
	release := make(chan struct{})
	s.mu.Lock()
	s.hang = release
	s.mu.Unlock()
	testkit.Eventually(t, "unhealthy", func() bool { return l.CurrentHealth().Health == component.HealthTypeUnhealthy })
	require.Contains(t, l.CurrentHealth().Message, "still opening /mnt/dead after 1m0s")
	require.EqualValues(t, 1, l.own().overdue)
	require.EqualValues(t, 1, strings.Count(l.log.String(), "no profiles: a round of collecting has taken"))
	s.mu.Lock()
	s.hang = nil
	s.mu.Unlock()
	close(release)
	testkit.Eventually(t, "healthy", func() bool { return l.CurrentHealth().Health == component.HealthTypeHealthy })
	require.EqualValues(t, 1, l.own().overdue)
}

func TestOverdueAfter(t *testing.T) {
	require.Equal(t, 22500*time.Millisecond, overdueAfter(15*time.Second))
	require.Equal(t, 2*time.Second, overdueAfter(time.Second))
}

func TestWaitsFor(t *testing.T) {
	require.Empty(t, waitsFor(nil))
	require.Equal(t, "still d after 4s; still c after 3s; still b after 2s; 1 more",
		waitsFor(map[string]time.Duration{"a": time.Second, "b": 2 * time.Second, "c": 3 * time.Second,
			"d": 4 * time.Second}))
}
