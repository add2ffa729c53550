package delivery

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/ebpf/retrytest"
	"github.com/headwater/headwater/integration/lab"
)

// typesOf returns the types of a kind's profiles in Pyroscope, one for each value.
func typesOf(k kind.Kind) (types []string) {
	info := kind.Of(k)
	for _, v := range info.Values {
		types = append(types, fmt.Sprintf("%s:%s:%s:%s:%s", info.Series, v.Type, v.Unit, info.Values[0].Type,
			info.Values[0].Unit))
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
	agent := lab.StartHeadwater(t, lab.HostConfig(server.URL, "kinds", "page_faults { period = 16 }"))
	defer agent.Stop(t)
	agent.WaitReady(t)
	lab.WaitForService(t, server, "kinds")
	retrytest.Run(t, func(t *retrytest.T) {
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
		lab.Eventually(t, 30*time.Second, "page faults are in Pyroscope", func() bool {
			return growth(types[0]) > faults/2
		})
		if got := growth(types[0]); got < faults*4/5 || got > faults*6/5 {
			t.Errorf("%s has %d page faults, but getrusage says %d", name, got, faults)
		}
		if got, bytes := growth(types[0]), growth(types[1]); got*int64(os.Getpagesize()) != bytes {
			t.Errorf("%d page faults are %d bytes", got, bytes)
		}
	})
	require.Contains(t, server.LabelValues(t, "__name__"), "page_faults")
	require.Empty(t, server.Discarded(t))
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
