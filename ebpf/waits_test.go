package ebpf

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// waitingProgram is the variable by which TestWaitsOfGo starts itself as the program that it profiles.
const waitingProgram = "HEADWATER_WAITING"

const (
	waitingFor   = 3 * time.Second // to be seen
	waitingApart = 100 * time.Millisecond
)

// TestWaitsOfGo has a thread wait for a pipe to which another thread writes. Its time is in the profile of time off
// CPU, by whole stacks, with the reason and the waker of the wait. Go's program is its own workload, so that this needs
// no compiler on any kernel and architecture.
func TestWaitsOfGo(t *testing.T) {
	if os.Getenv(waitingProgram) != "" {
		waitForPipe(t)
		return
	}
	t.Parallel()
	need.Root(t)
	tryWaitsOfGo(t)
}

// waitForPipe has two threads: one writes to the other until the process is killed.
func waitForPipe(t *testing.T) {
	ends := make([]int, 2)
	if err := unix.Pipe(ends); err != nil {
		t.Fatal(err)
	}
	go func() {
		runtime.LockOSThread()
		for {
			pause := unix.NsecToTimespec(int64(waitingApart))
			_ = unix.Nanosleep(&pause, nil) // of this thread only
			_, _ = unix.Write(ends[1], []byte{1})
		}
	}()
	runtime.LockOSThread()
	fmt.Println("waiting")
	waitingRead(ends[0])
}

//go:noinline
func waitingRead(from int) {
	for b := make([]byte, 1); ; {
		if n, err := unix.Read(from, b); n <= 0 && err != unix.EINTR {
			return
		}
	}
}

func tryWaitsOfGo(t *testing.T) {
	const name = "hwwaiting"
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, "-test.run=^TestWaitsOfGo$")
	cmd.Env = append(os.Environ(), waitingProgram+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pid := testkit.Run(t, cmd)
	for lines := bufio.NewReader(out); ; {
		if line, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		} else if line == "waiting\n" {
			break
		}
	}
	o := Options{}
	o.Comm = CommLabel
	o.OffCPU = OffCPU{Rate: 2 * DefaultOffCPURate, States: DefaultOffCPUStates(), Wakers: true}
	// If there are more threads than a pass looks at, a random choice has the time of all: so only this test's threads
	// are looked at.
	started := time.Now()
	s := start(t, only(o, pid))
	defer s.Close()
	var seen reading
	collectUntil(t, s, "the thread is seen in the read", func(more []Profile) bool {
		seen.add(t, more, name)
		return seen.all > 0
	})
	begin, took := time.Now(), time.Duration(0)
	seen = reading{}
	collectUntil(t, s, "the time in the read is seen", func(more []Profile) bool {
		seen.add(t, more, name)
		if took = time.Since(begin); seen.all < waitingFor {
			time.Sleep(20 * waitingApart) // a Collect cuts a wait in two, and the first part has no waker
		}
		return seen.all >= waitingFor
	})
	t.Logf("in the read: %+v; it took %v", seen, took)
	// On a busy machine, the first profile after begin also has time from before begin. slack is for the pass under way.
	known, slack := seen.all-seen.ready, waitingFor/2
	if seen.all > time.Since(started)+slack || seen.all < took/2 || seen.right < known*3/4 {
		t.Errorf("in %v, the time in the read is %+v: want most of it, and most of that known and whole", took, seen)
	}
	lost := s.Stats().OffCPU.WakersLost // of all threads of the host, so the thread is not known
	if seen.woken == 0 || seen.woken < seen.all/4 && lost == 0 {
		t.Errorf("the writer is said to have ended %v of %v; %d wakers were lost", seen.woken, seen.all, lost)
	}
}

// reading is the time that the reader waits: all of it, the time in the queue for a CPU, the part known by a whole
// stack to be for a pipe, and the part that a thread of the process has ended.
type reading struct {
	all, ready, right, woken time.Duration
}

func (r *reading) add(t testing.TB, profiles []Profile, name string) {
	t.Helper()
	for _, p := range profiles {
		if p.Kind != kind.OffCPU {
			continue
		}
		for _, sample := range p.Pprof.Sample {
			frames := frameNames(sample)
			if !slices.Contains(sample.Label["comm"], name) || !slices.ContainsFunc(frames, isWaitingRead) {
				continue
			}
			d := time.Duration(sample.Value[0])
			r.all += d
			whole := !strings.HasPrefix(frames[len(frames)-1], "[incomplete")
			switch {
			case slices.Contains(sample.Label["state"], kernel.Runnable.String()):
				r.ready += d
			case whole && slices.Contains(sample.Label["wait"], "pipe") && slices.Contains(sample.Label["state"], "sleeping"):
				r.right += d
			}
			if slices.Contains(sample.Label["waker"], name) {
				r.woken += d
			} else {
				t.Logf("%v %v %s", d, sample.Label, strings.Join(frames, " "))
			}
		}
	}
}

func isWaitingRead(function string) bool { return strings.HasSuffix(function, "/ebpf.waitingRead") }

// frameNames returns the functions of a sample, leaf first.
func frameNames(sample *profile.Sample) (names []string) {
	for _, l := range sample.Location {
		for _, line := range l.Line {
			names = append(names, line.Function.Name)
		}
	}
	return names
}
