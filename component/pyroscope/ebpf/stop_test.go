package ebpf

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// The end of Run ends sampling at once, also while profiles are being collected: the last
// rounds do not compete with it.
func TestStopEndsSamplingFirst(t *testing.T) {
	l := newLab(t, fastArgs())
	stop := l.run(t)
	s := l.session(t, 0)
	release := make(chan struct{})
	s.mu.Lock()
	s.hang = release
	s.mu.Unlock()
	require.False(t, s.isStopped())
	ended := make(chan error)
	go func() { ended <- stop() }()
	testkit.Eventually(t, "sampling ends though a round is under way", s.isStopped)
	require.False(t, s.isClosed())
	close(release)
	require.NoError(t, <-ended)
	require.True(t, s.isClosed())
}
