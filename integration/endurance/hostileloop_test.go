package endurance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
	"github.com/headwater/headwater/integration/testkit/slowelf"
)

// Acceptable effects on other users when a user runs hostile files in a loop.
const (
	loopGap = 3 * time.Second // between profiles of 2 s
	loopCPU = 0.2             // of one CPU
)

// TestHostileFilesInALoop has another user run files continuously that take long to read, and that are written to
// before each run: 300 MiB of call frame information without an index, whose entries all refer to a distant one, and a
// million symbols at few addresses with names of up to 4 MiB. Profiles must keep arriving. make test has smaller files
// and ends after some profiles; make nightly measures gaps and CPU time, which requires an otherwise idle host.
func TestHostileFilesInALoop(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	start, length, profiles, files, size := 20*time.Second, 40*time.Second, 20, 2, 300<<20
	if !testkit.IsNightly() {
		t.Parallel()
		start, length, profiles, files, size = 0, 0, 4, 1, 30<<20
	}
	dir := rig.PublicDir(t)
	honest := filepath.Join(dir, "honest")
	rig.WriteFile(t, honest+".c", `
#include <time.h>
__attribute__((noinline)) unsigned long burn(volatile unsigned long n) {
	unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * n;
	return sum;
}
int main(void) {
	for (time_t end = time(0) + 2; time(0) < end;)
		burn(1000000);
}
`)
	rig.Compile(t, "gcc", "-O1", "-Wl,--build-id", "-o", honest, honest+".c")
	loop := "while :; do"
	for i := range files {
		for name, change := range map[string]func(*slowelf.Image){
			"frames": func(i *slowelf.Image) { i.Frames(size) },
			"names":  func(i *slowelf.Image) { i.Names(1_000_000) },
		} {
			path := filepath.Join(dir, fmt.Sprint(name, i))
			image := slowelf.Read(t, honest)
			change(image)
			image.Write(t, path)
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			loop += fmt.Sprintf(" touch %s; %s;", path, path)
		}
	}
	received := rig.StartReceiver(t)
	h := rig.StartPrioritized(t, rig.HostConfig(received.URL, "hostile", ""))
	startAsNobody(t, "/", "sh", "-c", loop+" done")
	await := func(d time.Duration, least int) {
		begun := time.Now()
		testkit.Eventually(t, "the time is over", func() bool {
			return time.Since(begun) >= d && len(received.Profiles("hostile")) >= least
		})
	}
	await(start, 1) // it looks at all that there is, and the user's CPU time at once is used up
	before, begun, stalled := loopCPUTime(t, h), time.Now(), stalledTime()
	await(length, profiles)
	elapsed, all := time.Since(begun), received.Profiles("hostile")
	share := (loopCPUTime(t, h) - before).Seconds() / elapsed.Seconds()
	longest := longestGap(all)
	t.Logf("%d profiles, the longest gap is %v, %.1f %% of a CPU in the last %v", len(all), longest, 100*share, elapsed)
	if stalled = stalledTime() - stalled; !testkit.IsNightly() || stalled > elapsed/2 {
		t.Logf("not judged: programs waited for a CPU in %v", stalled)
		return
	}
	if longest > loopGap {
		t.Errorf("the longest gap is %v, more than %v", longest, loopGap)
	}
	if share > loopCPU {
		t.Errorf("the profiler uses %.1f %% of a CPU, more than %.1f %%", 100*share, 100*loopCPU)
	}
}

// longestGap returns the longest time between the ends of two profiles.
func longestGap(profiles []*profile.Profile) (longest time.Duration) {
	for i := 1; i < len(profiles); i++ {
		longest = max(longest, time.Duration(profiles[i].TimeNanos-profiles[i-1].TimeNanos))
	}
	return longest
}

// loopCPUTime returns the CPU time of headwater and of its helper.
func loopCPUTime(t testing.TB, h *rig.Headwater) time.Duration {
	t.Helper()
	sum := rig.CPUTime(t, fmt.Sprint(h.PID()))
	for _, child := range rig.Children(t, h.PID()) {
		sum += rig.CPUTime(t, fmt.Sprint(child))
	}
	return sum
}
