package ebpf

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
)

// TestMain lets four tests run at once, however few CPUs there are: most wait for samples of their own program.
func TestMain(m *testing.M) {
	testkit.Parallel(4)
	os.Exit(m.Run())
}

// shared is a value that the first test that needs it makes for all tests.
type shared[T any] struct {
	once  sync.Once
	value T
	made  bool
}

func (s *shared[T]) get(t testing.TB, make func() T) T {
	t.Helper()
	s.once.Do(func() {
		s.value = make()
		s.made = true
	})
	if !s.made {
		t.Fatal("the test that makes what this one looks at, too, has failed")
	}
	return s.value
}

// collectUntil collects until enough accepts the profiles so far, and returns these.
func collectUntil(t testing.TB, s *Session, what string, enough func(more []Profile) bool) (all []Profile) {
	t.Helper()
	defer func() {
		if t.Failed() {
			stats := s.Stats()
			stats.Errors = nil // thousands, of all processes
			t.Logf("statistics of the session: %+v", stats)
		}
	}()
	testkit.Eventually(t, what, func() bool {
		more, err := s.Collect()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, more...)
		return enough(more)
	})
	return all
}

// only returns options by which a session looks at some processes only: the rest of the machine costs it no time, and
// takes no part of the copies of stacks.
func only(o Options, pids ...uint32) Options {
	o.TargetsOnly = true
	for _, pid := range pids {
		o.Targets = append(o.Targets, map[string]string{"__process_pid__": itoa(pid), "service_name": "test"})
	}
	return o
}

// settledSamples is how many stacks in a row have their rows when the rows are ready.
const settledSamples = 30

// settle collects until the rows of the processes are ready: until each process has had some stacks in a row that lack
// no rows. A busy machine delays only this step.
func settle(t testing.TB, s *Session, pids ...uint32) []Profile {
	t.Helper()
	had := map[uint32]int64{}
	return collectUntil(t, s, fmt.Sprintf("processes %v have %d stacks in a row with rows", pids, settledSamples),
		func(more []Profile) bool {
			settled := true
			for _, pid := range pids {
				if had[pid] < settledSamples {
					e := endsOf(more, pid)
					had[pid] += e.whole + e.broken
					if e.unready > 0 {
						had[pid] = 0
					}
				}
				settled = settled && had[pid] >= settledSamples
			}
			return settled
		})
}

// collectOf collects until each of the processes has samples.
func collectOf(t testing.TB, s *Session, want uint64, pids ...uint32) []Profile {
	t.Helper()
	had := map[uint32]uint64{}
	return collectUntil(t, s, fmt.Sprintf("processes %v have %d samples", pids, want), func(more []Profile) bool {
		enough := true
		for _, pid := range pids {
			n, _ := of(more, pid)
			had[pid] += n
			enough = enough && had[pid] >= want
		}
		return enough
	})
}

// collectWhole collects until each of the processes has whole stacks.
func collectWhole(t testing.TB, s *Session, want uint64, pids ...uint32) []Profile {
	t.Helper()
	had := map[uint32]uint64{}
	return collectUntil(t, s, fmt.Sprintf("processes %v have %d whole stacks", pids, want), func(more []Profile) bool {
		enough := true
		for _, pid := range pids {
			_, complete := of(more, pid)
			had[pid] += complete
			enough = enough && had[pid] >= want
		}
		return enough
	})
}

// ofPID returns the samples of a process in a profile with the label "pid".
func ofPID(p Profile, pid uint32) (own []*profile.Sample) {
	for _, s := range p.Pprof.Sample {
		if slices.Equal(s.Label["pid"], []string{itoa(pid)}) {
			own = append(own, s)
		}
	}
	return own
}

// ends counts samples by how the walks of their stacks ended.
type ends struct {
	whole, unready, broken int64
	example                string // of a broken one
}

// add counts a sample. It counts as unready also if its stack is incomplete for one of the given reasons.
func (e *ends) add(p Profile, s *profile.Sample, reasons ...string) {
	n := s.Value[0] / p.Pprof.Period
	names := frameNames(s)
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "[incomplete") })
	switch {
	case at < 0:
		e.whole += n
	case testkit.IsUnready(names[at]) || slices.Contains(reasons, testkit.IncompleteReason(names[at])):
		e.unready += n
	default:
		e.broken += n
		e.example = strings.Join(names, " ")
	}
}

// endsUnready reports whether a stack, by its names, leaf first, ends early because rows were not ready.
func endsUnready(names []string) bool { return slices.ContainsFunc(names, testkit.IsUnready) }

func (e *ends) String() string {
	return fmt.Sprintf("%d whole stacks, %d without rows yet, %d broken", e.whole, e.unready, e.broken)
}

// endsOf counts the samples of a process. The reasons are additional reasons for which a stack may be incomplete.
func endsOf(profiles []Profile, pid uint32, reasons ...string) (e ends) {
	for _, p := range profiles {
		for _, s := range ofPID(p, pid) {
			e.add(p, s, reasons...)
		}
	}
	return e
}

// check allows a few broken stacks, at least one, and demands that rows become ready: most stacks are whole.
func (e *ends) check(t testing.TB, name string, tolerated float64) {
	t.Helper()
	t.Logf("%s: %v", name, e)
	if float64(e.broken) > max(1, tolerated*float64(e.whole+e.broken)) || e.unready > max(e.whole, settledSamples) {
		t.Errorf("%s: %v, such as %s", name, e, e.example)
	}
}

// processTime returns the CPU time that this process has used.
func processTime(t testing.TB) time.Duration {
	t.Helper()
	return cpuTime(t, uint32(os.Getpid()))
}
