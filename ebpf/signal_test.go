package ebpf

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// flooding is the variable by which TestSignalFrames starts itself as the
// program that it profiles.
const flooding = "HEADWATER_FLOODED"

// TestSignalFrames has a thread interrupted by signals all the time. The interrupted code is below the frame that the
// kernel made for the handler. Go's program is its own workload, so that this needs no compiler on any kernel and
// architecture.
func TestSignalFrames(t *testing.T) {
	if os.Getenv(flooding) != "" {
		flood()
		return
	}
	t.Parallel()
	need.Root(t)
	trySignalFrames(t)
}

// handledSamples is the number of samples in a signal handler that are judged.
const handledSamples = 50

// flood has a goroutine, deep in calls, that sends signals to its own thread until the process is killed, or for ten
// minutes.
func flood() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	end := time.Now().Add(10 * time.Minute)
	done := make(chan int)
	go func() {
		runtime.LockOSThread()
		done <- floodedCall(20, end)
	}()
	<-done
}

//go:noinline
func floodedCall(depth int, end time.Time) int {
	if depth == 0 {
		return floodedLeaf(end)
	}
	return floodedCall(depth-1, end) + 1
}

//go:noinline
func floodedLeaf(end time.Time) (signals int) {
	pid, tid := os.Getpid(), syscall.Gettid()
	for time.Now().Before(end) {
		_ = syscall.Tgkill(pid, tid, syscall.SIGUSR1)
		signals++
	}
	return signals
}

func trySignalFrames(t *testing.T) {
	o := Options{}
	o.Comm, o.SampleRate, o.Labels = CommLabel, 499, []string{"pid"}
	const name = "hwflooded"
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	s := start(t, o)
	defer s.Close()
	cmd := exec.Command(link, "-test.run=^TestSignalFrames$")
	cmd.Env = append(os.Environ(), flooding+"=1")
	pid := testkit.Run(t, cmd)
	var handling, whole, unready int64
	collectUntil(t, s, "enough samples are in a signal handler", func(more []Profile) bool {
		for _, p := range more {
			for _, sample := range ofPID(p, pid) {
				frames := frameNames(sample)
				if !slices.ContainsFunc(frames, func(name string) bool { return strings.HasPrefix(name, "runtime.sigtramp") }) {
					continue
				}
				if slices.Contains(frames, "do_signal") {
					continue // arm64's kernel is putting the handler's registers in place
				}
				n := sample.Value[0] / p.Pprof.Period
				if endsUnready(frames) {
					unready += n
					continue
				}
				handling += n
				calls := 0
				for _, name := range frames {
					if strings.HasSuffix(name, "/ebpf.floodedCall") {
						calls++
					}
				}
				// Go's runtime also interrupts other goroutines of the program.
				if (calls == 21 || calls == 0) && !strings.HasPrefix(frames[len(frames)-1], "[incomplete") {
					whole += n
					continue
				}
				t.Logf("%d %s", n, strings.Join(frames, " "))
			}
		}
		return handling >= handledSamples
	})
	t.Logf("%d samples in a signal handler, %d of them with what it interrupted; %d without rows yet",
		handling, whole, unready)
	tolerated := int64(0)
	if runtime.GOARCH == "arm64" {
		tolerated = handling / 20 // there, frame records do not show on which stack a first sample continues
	}
	if handling-whole > tolerated || unready > handling {
		t.Errorf("%d of %d samples in a signal handler are whole, want all but %d; %d more had no rows yet", whole, handling,
			tolerated, unready)
	}
}
