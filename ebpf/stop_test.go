package ebpf

import (
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// After sampling has ended no samples are taken, and the samples before can be collected.
func TestStopSampling(t *testing.T) {
	t.Parallel()
	need.Root(t)
	pid := testkit.Spin(t)
	s := start(t, Options{})
	defer s.Close()
	collect(t, s, pid, 1)
	used := cpuTime(t, pid)
	testkit.Eventually(t, "the shell runs before the end", func() bool { return cpuTime(t, pid)-used > enoughCPU })
	if err := s.StopSampling(); err != nil {
		t.Fatal(err)
	}
	before, err := s.collector.Sampler.Stats()
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := of(profiles, pid); n == 0 {
		t.Error("the samples of before are not there")
	}
	time.Sleep(500 * time.Millisecond)
	after, err := s.collector.Sampler.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Delivered + after.Idle - before.Delivered - before.Idle; n != 0 {
		t.Errorf("%d samples after the end", n)
	}
}
