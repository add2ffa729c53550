package probe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
)

// late knows a process after it has caught up.
type late struct {
	known  bool
	times  int
	ignore []uint32
	caught uint64
}

func (l *late) OpenProbes() (*kernel.Probes, error) { return nil, nil }

func (l *late) CatchUp(until uint64) error {
	if until > l.caught {
		l.known, l.caught = true, clock.Monotonic()
		l.times++
	}
	return nil
}

func (l *late) Ignore(pid uint32) { l.ignore = append(l.ignore, pid) }

func (l *late) CompleteHit(*kernel.ProbeHit) *sampler.Sample {
	return &sampler.Sample{Sample: &kernel.Sample{}}
}

// TestHitOfNewProcess: a hit of a process that has started since the Completer last caught up counts. The Completer
// catches up once for all earlier hits.
func TestHitOfNewProcess(t *testing.T) {
	completer, used := &late{}, 0
	p := New(Options{
		Completer: completer,
		Target:    func(uint32) (*target.Target, bool) { return nil, completer.known },
		Use:       func(*sampler.Sample) { used++ },
	})
	link, err := Parse("uprobe:/bin/true:main")
	require.NoError(t, err)
	p.byNumber[1] = attached{Probe: link}
	completer.caught = clock.Monotonic()
	hit := func(time uint64) {
		p.useHit(&kernel.ProbeHit{PerfSnapshot: kernel.PerfSnapshot{PID: 7, Time: time}, Probe: 1, Hits: 1})
	}
	hit(completer.caught)
	require.Zero(t, used, "of a process that is not wanted")
	require.Zero(t, completer.times)
	require.Equal(t, []uint32{7}, completer.ignore)
	after := completer.caught + 1
	hit(after)
	hit(after)
	require.Equal(t, 2, used)
	require.Equal(t, 1, completer.times)
}
