package ebpf

import (
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
)

// What is sampled after the last Collect is lost when a session is closed, and counted.
func TestUncollectedSamplesAreCounted(t *testing.T) {
	pid := testkit.Spin(t)
	o := DefaultOptions()
	o.SampleRate = 1000
	s := start(t, o)
	_, collected := countAll(t, s)
	time.Sleep(500 * time.Millisecond)
	profiles, n := countAll(t, s)
	collected += n
	if n, _ := of(profiles, pid); n == 0 {
		t.Fatal("no profile of the busy program")
	}
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
	// One CPU at least was busy all the time.
	if lost, want := stats.Lost[LostToTheEnd], uint64(o.SampleRate)*uint64(rest/time.Second); lost < want*3/4 {
		t.Errorf("%d samples are said to be lost to the end, want %d or more", lost, want)
	}
}

// At 10 kHz, what was sampled until sampling ended is in the last profiles: nothing is left.
func TestLastCollectHasEverything(t *testing.T) {
	pid := testkit.Spin(t)
	o := DefaultOptions()
	o.SampleRate = 10_000
	s := start(t, o)
	time.Sleep(2 * time.Second)
	if err := s.StopSampling(); err != nil {
		t.Fatal(err)
	}
	profiles, collected := countAll(t, s)
	if n, _ := of(profiles, pid); n == 0 {
		t.Error("no samples of the busy program")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stats := s.Stats()
	t.Logf("%d samples collected; %+v", collected, stats.Lost)
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
