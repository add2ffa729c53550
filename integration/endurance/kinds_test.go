package endurance

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestAllKinds profiles programs that are hard to profile with every kind of samples on: ten thousand threads, half of
// them busy, two threads that wake each other as fast as they can, and a shell that starts programs continuously.
// Profiles keep arriving, limits hold, and no time of a thread is lost: the off-CPU time in the profiles equals the
// counted time, and if the threads stay the same it equals threads x time.
func TestAllKinds(t *testing.T) {
	need.Root(t)
	length := 12 * time.Second
	if !testkit.IsNightly() {
		t.Parallel()
		length = 5 * time.Second
	}
	program := filepath.Join(t.TempDir(), "hwwaits")
	rig.Compile(t, "gcc", "-O2", "-pthread", "-o", program, "../lab/bench/testdata/waits.c")
	for name, command := range map[string][]string{
		// Thousands of threads would use a whole CPU unless they only run when it is idle.
		"threads":  {"chrt", "--idle", "0", program, "threads", "5000", "5000"},
		"switches": {program, "switches"},
		"execs":    {"sh", "-c", "while :; do /bin/true; done"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "switches" {
				testkit.Nightly(t, "another program of this test has its time counted; TestStopped starts programs all the time")
			}
			profileAllKinds(t, exec.Command(command[0], command[1:]...), length)
		})
	}
}

const passesName = "pyroscope_ebpf_off_cpu_passes_total"

// pass is the end of a pass over all threads: some time from one moment until another.
type pass struct {
	from, until time.Time
	metrics     rig.Metrics // after it
}

// nextPass waits until a pass ends. There are fewer passes the more threads there are, and they wait for a CPU as
// everything does.
func nextPass(t *testing.T, h *rig.Headwater) (p pass) {
	p.from = time.Now()
	before := h.Metric(t, passesName)
	testkit.Eventually(t, "a pass", func() bool {
		asked := time.Now()
		p.metrics = h.Metrics(t)
		if p.metrics.Sum(t, passesName) > before {
			p.until = time.Now()
			return true
		}
		p.from = asked
		return false
	})
	return p
}

// profileAllKinds profiles a program for some time. The agent may use a third of a CPU.
func profileAllKinds(t *testing.T, cmd *exec.Cmd, length time.Duration) {
	living := rig.Start(t, cmd)
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
	targets          = [{"__process_pid__" = "%d", "service_name" = "hard"}]
	collect_interval = "1s"
	probe_links      = ["tracepoint:sched:sched_process_exec period=10", "software:context-switches period=1000"]

	off_cpu {
		labels = ["state", "wait", "waker"]
	}
	page_faults { }
	heap { }
}
`, received.URL, living.PID()))
	testkit.Eventually(t, "the first profile", func() bool { return len(received.Profiles("hard")) > 0 })
	spent, begun := rig.CPUTime(t, fmt.Sprint(h.PID())), time.Now()
	first := nextPass(t, h)
	time.Sleep(length)
	last := nextPass(t, h)
	before, after, took := first.metrics, last.metrics, time.Since(begun)
	spent = rig.CPUTime(t, fmt.Sprint(h.PID())) - spent

	threads := after.Sum(t, "pyroscope_ebpf_off_cpu_threads")
	const timeOfThreads = "pyroscope_ebpf_off_cpu_thread_nanoseconds_total"
	seen := (after.Sum(t, timeOfThreads) - before.Sum(t, timeOfThreads)) / 1e9
	t.Logf("agent %v in %v; %.0f threads, %.1f s of them; %.0f passes, %.0f stacks read, %.0f not read", spent, took,
		threads, seen, after.Sum(t, passesName),
		after.Sum(t, "pyroscope_ebpf_off_cpu_stacks_read_total"),
		after.Sum(t, "pyroscope_ebpf_off_cpu_stacks_not_read_total"))
	// Each pass credits the time until then: several have to be in it.
	passes := after.Sum(t, passesName) - before.Sum(t, passesName)
	least, most := last.from.Sub(first.until).Seconds(), last.until.Sub(first.from).Seconds()
	same := threads == before.Sum(t, "pyroscope_ebpf_off_cpu_threads")
	if same && passes > 10 && (seen < threads*least*3/4 || seen > threads*most*5/4) {
		t.Errorf("%.1f s of %.0f threads in %.2f to %.2f s", seen, threads, least, most)
	}
	if spent > took/3 {
		t.Errorf("the agent took %v of CPU time in %v", spent, took)
	}
	arrived := len(received.Profiles("hard"))
	living.Kill(t)
	testkit.Eventually(t, "its threads are gone", func() bool {
		return h.Metric(t, "pyroscope_ebpf_off_cpu_threads") == 0
	})

	counted := h.Metrics(t).Sum(t, timeOfThreads) - h.Metrics(t).Sum(t, timeOfThreads, `state="running"`)
	profiled := func() (sum float64) {
		for _, p := range received.Profiles("hard") {
			if p.SampleType[0].Type != "offcpu" {
				continue
			}
			for _, s := range p.Sample {
				sum += float64(s.Value[0])
			}
		}
		return sum
	}
	defer func() {
		t.Logf("%.3f s off CPU, %.3f s in %d profiles", counted/1e9, profiled()/1e9, arrived)
	}()
	testkit.Eventually(t, "all time that was counted is in profiles", func() bool {
		return math.Abs(profiled()-counted) <= counted/1e6
	})

	require.Greater(t, arrived, int(length/time.Second)/2, "profiles")
}
