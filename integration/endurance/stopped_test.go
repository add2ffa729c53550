package endurance

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// stopLength is how long TestStopped stops the profiler: the kernel's logs of samples are
// full long before.
const stopLength = 6 * time.Second

// TestStopped stops the profiler by a signal while one program continues and other programs start and end. When the
// profiler continues, profiles arrive again, and it accounts for the backlog: stacks of the continuing program are
// complete and named, and samples of programs that have ended say that their records were lost.
func TestStopped(t *testing.T) {
	testkit.Nightly(t, "next to hostile programs late names decide; TestUncollectedSamplesAreCounted stops a reader")
	need.Root(t)
	t.Parallel()
	program := rig.ChainProgram(t, "hwliving")
	living := rig.StartChain(t, program, 600)
	var others []*rig.Process
	for range 2 { // each runs some hundred programs a second
		others = append(others, rig.Start(t, exec.Command("sh", "-c", "while :; do /bin/true; done")))
	}
	received := rig.StartReceiver(t)
	h := rig.StartPrioritized(t, fmt.Sprintf(`
pyroscope.write "server" {
	endpoint {
		url            = %q
		remote_timeout = "2m"
	}
}

pyroscope.ebpf "host" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__process_pid__" = "%d", "service_name" = "living"}]
	default_target   = {"service_name" = "others"}
	targets_only     = false
	collect_interval = "1s"
	sample_rate      = 997
}
`, received.URL, living.PID()))
	testkit.Eventually(t, "three rounds, and whole stacks in the last", func() bool {
		all := received.Profiles("living")
		if len(all) == 0 || readAccounts(t, h).rounds < 3 {
			return false
		}
		whole, total := wholeChains(t, all[len(all)-1], "hwliving")
		return whole == total
	})

	before := readAccounts(t, h)
	h.Signal(t, syscall.SIGSTOP)
	for _, other := range others { // even on a busy host, logs must be full of their records
		other.Prioritize(t)
	}
	time.Sleep(stopLength)
	for _, other := range others {
		other.Kill(t)
	}
	h.Signal(t, syscall.SIGCONT)
	var now accounts
	testkit.Eventually(t, "three rounds more", func() bool {
		now = readAccounts(t, h)
		return now.rounds >= before.rounds+3
	})

	h.Stop(t)
	checkAccounts(t, before, now)
	checkLiving(t, received.Profiles("living"))
	checkEnded(t, received.Profiles("others"))
}

// accounts say what became of the samples that were due until a moment.
type accounts struct {
	rounds, expected, delivered float64
	lost, logFull, timerSkipped float64 // the latter two are parts of the first
}

func readAccounts(t testing.TB, h *rig.Headwater) accounts {
	t.Helper()
	m := h.Metrics(t)
	const lost = "pyroscope_ebpf_samples_lost_total"
	return accounts{
		rounds:       m.Sum(t, "pyroscope_ebpf_profiling_sessions_total"),
		expected:     m.Sum(t, "pyroscope_ebpf_samples_expected_total"),
		delivered:    m.Sum(t, "pyroscope_ebpf_samples_delivered_total"),
		lost:         m.Sum(t, lost),
		logFull:      m.Sum(t, lost, `reason="log_full"`),
		timerSkipped: m.Sum(t, lost, `reason="timer_skipped"`),
	}
}

// checkAccounts demands that each sample that was due was delivered or lost, and that those
// that were lost had no room in the logs.
func checkAccounts(t testing.TB, before, now accounts) {
	t.Helper()
	expected, delivered, lost := now.expected-before.expected, now.delivered-before.delivered, now.lost-before.lost
	logFull, timerSkipped := now.logFull-before.logFull, now.timerSkipped-before.timerSkipped
	t.Logf("%.0f samples were due: %.0f delivered, %.0f lost, %.0f of them to full logs, %.0f to skipped timers",
		expected, delivered, lost, logFull, timerSkipped)
	if sum := delivered + lost; sum < 0.99*expected || sum > 1.01*expected {
		t.Errorf("%.0f samples are accounted for, %.0f were due", sum, expected)
	}
	if logFull == 0 {
		t.Error("no log was full: the stop was too short to see anything")
	}
	if timerSkipped > expected/10 {
		t.Errorf("%.0f of %.0f samples are said to be lost to skipped timers", timerSkipped, expected)
	}
}

// overStop returns the index of the profile that covers the stop.
func overStop(t testing.TB, all []*profile.Profile) int {
	t.Helper()
	for i, p := range all {
		if time.Duration(p.DurationNanos) >= stopLength {
			return i
		}
	}
	t.Fatalf("none of %d profiles covers the stop", len(all))
	return 0
}

// checkLiving requires complete stacks of the continuing program, in the profile that covers the stop and in later
// ones.
func checkLiving(t testing.TB, all []*profile.Profile) {
	t.Helper()
	for i, p := range all[overStop(t, all):] {
		whole, total := wholeChains(t, p, "hwliving")
		t.Logf("profile %d after the stop, of %v: %d ms, %d ms in whole stacks",
			i, time.Duration(p.DurationNanos).Round(time.Millisecond), total/1e6, whole/1e6)
		// The last profile may have few samples.
		if slack := 3 * p.Period; whole+slack < total*95/100 {
			t.Errorf("only %d of %d ms are in whole stacks:\n%s", whole/1e6, total/1e6,
				rig.Show(rig.OfCommand(rig.Stacks(p), "hwliving"), 5))
		}
	}
}

// wholeChains returns the CPU time that a profile has of a chain program, and how much of it is in whole stacks. One
// that is neither whole nor says that it is incomplete fails the test.
func wholeChains(t testing.TB, p *profile.Profile, program string) (whole, total int64) {
	t.Helper()
	for _, s := range rig.OfCommand(rig.Stacks(p), program) {
		total += s.Value
		if len(s.Frames) > 1 && strings.HasPrefix(s.Frames[1].Name, "[incomplete: ") {
			continue
		}
		last, err := rig.ChainDepth(s)
		if err != nil {
			t.Errorf("%v in %v", err, s)
		}
		if last == 59 {
			whole += s.Value
		}
	}
	return whole, total
}

// checkEnded requires that samples of programs that ended during the stop are marked as lacking records, and that
// samples of unknown processes are not more frequent than before.
func checkEnded(t testing.TB, all []*profile.Profile) {
	t.Helper()
	// share returns the percentage of the time with an outcome, and the stacks with it.
	share := func(profiles []*profile.Profile, outcome string) (percent float64, with []rig.Stack) {
		var all []rig.Stack
		for _, p := range profiles {
			all = append(all, rig.Stacks(p)...)
		}
		for _, s := range all {
			if len(s.Frames) > 1 && strings.HasPrefix(s.Frames[1].Name, "[incomplete: "+outcome) {
				with = append(with, s)
			}
		}
		return 100 * float64(rig.Total(with)) / float64(max(rig.Total(all), 1)), with
	}
	at := overStop(t, all)
	usual, covering := all[:at], all[at:at+1]
	lost, _ := share(covering, "records_lost")
	unknown, stacks := share(covering, "process_unknown")
	before, _ := share(usual, "process_unknown")
	t.Logf("records_lost %.2f %%, process_unknown %.2f %%, before the stop %.2f %%", lost, unknown, before)
	if lost == 0 {
		t.Error("no sample says that records were lost")
	}
	if unknown > before+1 {
		t.Errorf("%.2f %% of the samples are process_unknown, before the stop %.2f %%:\n%s",
			unknown, before, rig.Show(stacks, 10))
	}
}
