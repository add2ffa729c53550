package delivery

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// typesOf returns the types of a kind's profiles in Pyroscope, one for each value.
func typesOf(k kind.Kind) (types []string) {
	info, period := kind.Of(k), k.PeriodType()
	for _, v := range info.Values {
		types = append(types, fmt.Sprintf("%s:%s:%s:%s:%s", info.Series, v.Type, v.Unit, period.Type,
			period.Unit))
	}
	return types
}

// faultPeriod is how many page faults a sample stands for.
const faultPeriod = 16

// TestKinds: each kind of samples comes back from Pyroscope under its own types, next to CPU time, and the page faults
// of a function are as many as getrusage says.
func TestKinds(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{rig.CPUProfile}, typesOf(kind.CPU))
	server := sharedPyroscope(t)
	agent := rig.StartPrioritized(t, rig.HostConfig(server.URL, "kinds",
		fmt.Sprintf("page_faults { period = %d }\noff_cpu { }\nheap {\nsample_bytes = \"128KiB\"\noverhead_limit = 0\n}",
			faultPeriod)))
	defer agent.Stop(t)
	rig.WaitForService(t, server, "kinds")
	checkFaults(t, server, agent)
	checkWaits(t, server, agent)
	checkHeap(t, server)
	require.Contains(t, server.LabelValues(t, "__name__"), "page_faults")
	require.Contains(t, server.LabelValues(t, "__name__"), "offcpu")
	require.Empty(t, refused(t, server))
}

// checkFaults: the page faults of a function are as many as getrusage says, but for those that were lost and counted.
func checkFaults(t *testing.T, server *rig.Pyroscope, agent *rig.Headwater) {
	program := filepath.Join(t.TempDir(), "hwgrow")
	rig.Compile(t, "gcc", "-O1", "-g", "-o", program, "../tools/testdata/grow.c")
	since := time.Now()
	grows := exec.Command(program)
	stdin, err := grows.StdinPipe() // with its end the program ends
	require.NoError(t, err)
	stdout, err := grows.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, grows.Start())
	defer func() {
		_ = stdin.Close()
		_ = grows.Wait()
	}()
	var name string
	var faults int64
	_, err = fmt.Fscanf(stdout, "%s %d", &name, &faults)
	require.NoError(t, err)
	require.Equal(t, "growing", name)
	types := typesOf(kind.PageFaults)
	growth := func(profileType string) int64 {
		return ofFunction(server.Profile(t, profileType, `{service_name="kinds"}`, since), name)
	}
	got := int64(0)
	testkit.Eventually(t, "all page faults are in Pyroscope", func() bool {
		got = growth(types[0])
		lost := int64(agent.Metric(t, "pyroscope_ebpf_event_samples_lost_total"))
		return got+lost*faultPeriod >= faults*4/5
	})
	if got > faults*6/5 {
		t.Errorf("%s has %d page faults, but getrusage says %d", name, got, faults)
	}
	testkit.Eventually(t, "each page fault is a page", func() bool { // another profile may arrive between two requests
		return growth(types[0])*int64(os.Getpagesize()) == growth(types[1])
	})
}

// checkHeap: what a program has leaked is in each profile of memory in use, under the type of Go's own profiles.
func checkHeap(t *testing.T, server *rig.Pyroscope) {
	require.Equal(t, []string{"memory:inuse_space:bytes:space:bytes"}, typesOf(kind.Heap))
	program := filepath.Join(t.TempDir(), "hwleaks")
	rig.Compile(t, "gcc", "-O1", "-g", "-pthread", "-o", program, "../tools/testdata/leaks.c")
	since := time.Now()
	leaks := exec.Command(program, "wait")
	stdin, err := leaks.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, leaks.Start())
	defer func() {
		_ = leaks.Process.Kill()
		_ = leaks.Wait() // it says that it was killed
	}()
	_, err = io.WriteString(stdin, "x")
	require.NoError(t, err)
	const leaked = 40 << 20
	testkit.Eventually(t, "a leak is in Pyroscope", func() bool {
		p := server.Profile(t, typesOf(kind.Heap)[0], `{service_name="kinds"}`, since)
		return ofFunction(p, "leak") > leaked/2
	})
}

// checkWaits: a process that sleeps is in the profile of time off CPU for as long as it is there.
func checkWaits(t *testing.T, server *rig.Pyroscope, agent *rig.Headwater) {
	program := filepath.Join(t.TempDir(), "hwsleeper")
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	content, err := os.ReadFile(sleep)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, content, 0o700))
	// The pass that first sees a thread credits it with the time since the previous pass, even if the thread did not
	// exist then. The previous pass must start after since: wait for two passes, because the first one may have started
	// before.
	since, before := time.Now(), agent.Metrics(t)
	const passes = "pyroscope_ebpf_off_cpu_passes_total"
	testkit.Eventually(t, "two passes", func() bool { return agent.Metric(t, passes) >= before.Sum(t, passes)+2 })
	sleeper := exec.Command(program, "600")
	require.NoError(t, sleeper.Start())
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait() // it says that it was killed
	}()
	slept := func() time.Duration {
		p := server.Profile(t, typesOf(kind.OffCPU)[0], `{service_name="kinds"}`, since)
		return time.Duration(ofFunction(p, "hwsleeper"))
	}
	testkit.Eventually(t, "seconds of sleep are in Pyroscope", func() bool { return slept() > 6*time.Second })
	got, elapsed, after := slept(), time.Since(since), agent.Metrics(t)
	// If more threads have moved than a pass reads, some of them stand for the rest. That may include this thread when
	// a pass first sees it, within a second; from then on it does not move.
	const name = "pyroscope_ebpf_off_cpu_stacks_"
	read := after.Sum(t, name+"read_total") - before.Sum(t, name+"read_total")
	unread := after.Sum(t, name+"not_read_total") - before.Sum(t, name+"not_read_total")
	others := time.Duration(2 * float64(time.Second) * unread / max(read, 1))
	t.Logf("%v of sleep in %v; %.0f stacks read, %.0f not read", got, elapsed, read, unread)
	require.LessOrEqual(t, got, elapsed+others)
}

// ofFunction adds up the first value of the samples that have a function.
func ofFunction(p *profile.Profile, name string) (sum int64) {
	for _, s := range rig.Stacks(p) {
		if s.Has(name) {
			sum += s.Value
		}
	}
	return sum
}
