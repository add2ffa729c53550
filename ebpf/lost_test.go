package ebpf

import (
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// Samples after the last Collect are lost when a session is closed, and counted.
func TestUncollectedSamplesAreCounted(t *testing.T) {
	t.Parallel()
	need.Root(t)
	pid := testkit.Spin(t)
	o := Options{}.withDefaults()
	o.SampleRate = 1000
	s := start(t, o)
	var collected, busy uint64
	testkit.Eventually(t, "the busy program has samples", func() bool {
		profiles, n := countAll(t, s)
		collected += n
		n, _ = of(profiles, pid)
		busy += n
		return busy >= 100
	})
	const rest = time.Second
	time.Sleep(rest)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stats := s.Stats()
	t.Logf("%d samples collected; %+v", collected, stats.Lost)
	if got := stats.Delivered - stats.Ignored; got != collected {
		t.Errorf("%d samples are said to be delivered, %d were collected", got, collected)
	}
	// At least one CPU was busy all the time.
	if lost, want := stats.Lost[LostToTheEnd], uint64(o.SampleRate)*uint64(rest/time.Second); lost < want*3/4 {
		t.Errorf("%d samples are said to be lost to the end, want %d or more", lost, want)
	}
}

// lastPatience is how long Collect waits, when sampling has ended, for samples that are not read yet.
const lastPatience = 3 * time.Second

// At 10 kHz, the last profiles have all samples until sampling ended: none are left.
func TestLastCollectHasEverything(t *testing.T) {
	need.Root(t)
	pid := testkit.Spin(t)
	o := Options{}.withDefaults()
	o.SampleRate = 10_000
	s := start(t, o)
	time.Sleep(2 * time.Second)
	used := cpuTime(t, pid)
	testkit.Eventually(t, "the busy program runs", func() bool { return cpuTime(t, pid) > used })
	if err := s.StopSampling(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	profiles, collected := countAll(t, s)
	patience := time.Since(begin)
	if n, _ := of(profiles, pid); n == 0 {
		t.Error("no samples of the busy program")
	}
	for patience > lastPatience && len(profiles) > 0 { // a busy machine has them later
		var n uint64
		profiles, n = countAll(t, s)
		collected += n
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stats := s.Stats()
	t.Logf("%d samples collected, the first of them in %v; %+v", collected, patience, stats.Lost)
	if n := stats.Lost[LostToTheEnd]; n > 0 {
		t.Errorf("%d samples were not collected", n)
	}
}

// countAll collects, and counts the samples by their values.
func countAll(t *testing.T, s *Session) (profiles []Profile, samples uint64) {
	t.Helper()
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles {
		for _, sample := range p.Pprof.Sample {
			samples += uint64(sample.Value[0] / p.Pprof.Period)
		}
	}
	return profiles, samples
}
