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

	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/retry"
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

// TestKinds: each kind of samples comes back from Pyroscope under its own types, next to CPU time, and the page faults
// of a function are as many as getrusage says.
func TestKinds(t *testing.T) {
	require.Equal(t, []string{lab.CPUProfile}, typesOf(kind.CPU))
	program := filepath.Join(t.TempDir(), "hwgrow")
	lab.Compile(t, "gcc", "-O1", "-g", "-o", program, "../tools/testdata/grow.c")
	server := lab.StartPyroscope(t)
	agent := lab.StartHeadwater(t, lab.HostConfig(server.URL, "kinds", "page_faults { period = 16 }\noff_cpu { }\n"+
		"heap { sample_bytes = \"128KiB\" }"))
	defer agent.Stop(t)
	agent.WaitReady(t)
	lab.WaitForService(t, server, "kinds")
	retry.Run(t, func(t *retry.T) {
		since := time.Now()
		printed, err := exec.Command(program).Output()
		require.NoError(t, err)
		var name string
		var faults int64
		_, err = fmt.Sscanf(string(printed), "%s %d", &name, &faults)
		require.NoError(t, err)
		require.Equal(t, "growing", name)
		types := typesOf(kind.PageFaults)
		growth := func(profileType string) int64 {
			return ofFunction(server.Profile(t, profileType, `{service_name="kinds"}`, since), name)
		}
		testkit.Eventually(t, "page faults are in Pyroscope", func() bool {
			return growth(types[0]) > faults/2
		})

		if got := growth(types[0]); got < faults*4/5 || got > faults*6/5 {
			t.Errorf("%s has %d page faults, but getrusage says %d", name, got, faults)
		}
		if got, bytes := growth(types[0]), growth(types[1]); got*int64(os.Getpagesize()) != bytes {
			t.Errorf("%d page faults are %d bytes", got, bytes)
		}
	})
	checkWaits(t, server)
	checkHeap(t, server)
	require.Contains(t, server.LabelValues(t, "__name__"), "page_faults")
	require.Contains(t, server.LabelValues(t, "__name__"), "offcpu")
	require.Empty(t, server.Discarded(t))
}

// checkHeap: what a program has leaked is in each profile of memory in use, under the type of Go's own profiles.
func checkHeap(t *testing.T, server *lab.Pyroscope) {
	require.Equal(t, []string{"memory:inuse_space:bytes:space:bytes"}, typesOf(kind.Heap))
	program := filepath.Join(t.TempDir(), "hwleaks")
	lab.Compile(t, "gcc", "-O1", "-g", "-pthread", "-o", program, "../tools/testdata/leaks.c")
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
func checkWaits(t *testing.T, server *lab.Pyroscope) {
	program := filepath.Join(t.TempDir(), "hwsleeper")
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	content, err := os.ReadFile(sleep)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, content, 0o700))
	since := time.Now()
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
	testkit.Eventually(t, "seconds of sleep are in Pyroscope", func() bool { return slept() > 3*time.Second })
	// The pass that first meets a thread credits it with the time since the pass before, when it may not have been there.
	const betweenPasses = time.Second
	require.LessOrEqual(t, slept(), time.Since(since)+betweenPasses)
}

// ofFunction adds up the first value of the samples that have a function.
func ofFunction(p *profile.Profile, name string) (sum int64) {
	for _, s := range lab.Stacks(p) {
		if s.Has(name) {
			sum += s.Value
		}
	}
	return sum
}
