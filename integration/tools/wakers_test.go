package tools

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestWakers: of a program whose waits are ended by a known thread, a known process and the clock, a recording has them
// as wakers, if that is asked for.
func TestWakers(t *testing.T) {
	t.Parallel()
	program := compiled(t, "hwwakers", "gcc", "-O1", "-g", "-pthread", "testdata/wakers.c")
	t.Run("with wakers", func(t *testing.T) {
		t.Parallel()
		folder, p := recordWakers(t, program)
		checkWaker(t, p, "way_lock", "lock", "hwowner")
		checkWaker(t, p, "way_pipe", "pipe", "hwwriter")
		checkWaker(t, p, "way_sleep", "sleep", "timer")
		for _, s := range p.Sample {
			if s.Label["state"][0] == "runnable" && len(s.Label["waker"]) > 0 {
				t.Errorf("who is queued for a CPU was woken by %s before", s.Label["waker"])
			}
		}
		out, err := exec.Command(rig.Binary(t), "report", "--by", "waker", filepath.Join(folder, "headwater.pb.gz")).Output()
		require.NoError(t, err)
		require.Regexp(t, `(?m)^ *\d+\.\d %  hwowner$`, string(out))
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		folder, _, stderr, code := record(t, "-e", "off-cpu", "--", program, "3") // it ends with a second of the clock
		require.Equal(t, 0, code, stderr)
		for _, s := range readProfile(t, folder, "headwater.pb.gz").Sample {
			require.Empty(t, s.Label["waker"], "nobody has asked for it")
		}
	})
}

// recordWakers records the program until a second of each of its waits has been seen. If other processes keep the CPUs
// busy, threads are sampled seldom.
func recordWakers(t *testing.T, program string) (folder string, p *profile.Profile) {
	t.Helper()
	for seconds := 5; ; seconds *= 3 {
		folder, _, stderr, code := record(t, "-e", "off-cpu", "--label", "waker", "--", program, fmt.Sprint(seconds))
		require.Equal(t, 0, code, stderr)
		p = readProfile(t, folder, "headwater.pb.gz")
		enough := true
		for _, way := range []string{"way_lock", "way_pipe", "way_sleep"} {
			enough = enough && valueOf(p, way, "offcpu") >= 1e9
		}
		if enough || seconds > 100 {
			return folder, p
		}
	}
}

// checkWaker fails unless most of the time that a function waits is ended by a waker, and next to none by another. Some
// has none: of waits that end while they are read, and of the last one.
func checkWaker(t testing.TB, p *profile.Profile, function, wait, waker string) {
	all, right, wrong := 0.0, 0.0, map[string]float64{}
	for _, s := range p.Sample {
		if !hasFunction(s, function) || !waitsFor(wait)(s) {
			continue
		}
		seconds := float64(s.Value[len(s.Value)-1]) / 1e9
		all += seconds
		switch by := strings.Join(s.Label["waker"], " "); by {
		case waker:
			right += seconds
		case "":
		default:
			wrong[by] += seconds
		}
	}
	t.Logf("%s: %.2f of %.2f s by %s, and by others %v", function, right, all, waker, wrong)
	others := 0.0
	for _, seconds := range wrong {
		others += seconds
	}
	if right < all/2 || all == 0 || others > all/20 {
		t.Errorf("%s was woken by %s for %.2f of %.2f s, and by others %v", function, waker, right, all, wrong)
	}
}
