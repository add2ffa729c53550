package delivery

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/javawork"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestJava: CPU time, allocations and locks of a Java VM are in Pyroscope, under the types of Pyroscope's Java agent,
// and are what the program knows. A profiler that is killed leaves no file, and no recording for longer than some
// intervals.
//
// It does not run in parallel: its VM uses all CPUs, and other tests of this package count the time of short processes.
func TestJava(t *testing.T) {
	server := sharedPyroscope(t)
	w := javawork.Start(t, "java", 0)
	since := time.Now() // a profile has the time of its recording's start
	agent := rig.LaunchHeadwater(t, fmt.Sprintf(`pyroscope.java "vm" {
	targets    = [{"__process_pid__" = "%d", "service_name" = "javawork"}]
	forward_to = [pyroscope.write.server.receiver]
	profiling_config {
		interval = "2s"
		lock     = "10ms"
	}
}
pyroscope.write "server" {
	endpoint { url = "%s" }
}
`, w.PID, server.URL), nil)
	agent.WaitReady(t)
	testkit.Eventually(t, "the VM records", func() bool {
		return strings.Contains(w.JCmd("JFR.check"), "name=headwater-")
	})
	large, enter, acquire := w.Work("large", 100), w.Work("enter", 100), w.Work("acquire", 100)
	small := w.Work("small", 500_000)
	const held = int64(100 * time.Millisecond)
	sum := func(profileType, function string) int64 {
		if p := server.Profile(t, profileType, `{service_name="javawork"}`, since); p != nil {
			return ofFunction(p, function)
		}
		return 0
	}
	testkit.Eventually(t, "Pyroscope has what the program did", func() bool {
		small += w.Work("small", 100_000)
		return sum("memory:alloc_outside_tlab_bytes:bytes:space:bytes", "Work.large") == large &&
			sum("mutex:delay:nanoseconds:mutex:count", "Work.enter") > held*99/100 &&
			sum("block:delay:nanoseconds:block:count", "Work.acquire") > held*99/100 &&
			sum(rig.CPUProfile, "Work.small") > 0
	})
	testkit.Eventually(t, "Pyroscope has the small objects", func() bool {
		got := sum("memory:alloc_in_new_tlab_bytes:bytes:space:bytes", "Work.small")
		return got > small*9/10 && got < small*11/10
	})
	require.Less(t, sum("mutex:delay:nanoseconds:mutex:count", "Work.enter"), enter*101/100)
	require.Less(t, sum("block:delay:nanoseconds:block:count", "Work.acquire"), acquire*101/100)

	agent.Signal(t, syscall.SIGKILL)
	agent.Wait(t, time.Minute)
	testkit.Eventually(t, "no file is left", func() bool {
		left, err := filepath.Glob("/tmp/.headwater-*.jf?")
		return err == nil && len(left) == 0
	})
	require.Contains(t, w.JCmd("JFR.check"), "duration=", "the VM ends the recording by itself")
}
