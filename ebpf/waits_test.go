package ebpf

import (
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

	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// waitingProgram is the variable by which TestWaitsOfGo starts itself as the program that it profiles.
const waitingProgram = "HEADWATER_WAITING"

const (
	waitingFor   = 4 * time.Second
	waitingApart = 100 * time.Millisecond
)

// TestWaitsOfGo has a thread wait for a pipe that another one writes to: its time is in the profile of time off CPU, by
// whole stacks, with what it waits for and who ends that. Go's program is its own workload, so that this needs no
// compiler on any kernel and architecture.
func TestWaitsOfGo(t *testing.T) {
	if os.Getenv(waitingProgram) != "" {
		waitForPipe(t)
		return
	}
	retry.Run(t, tryWaitsOfGo)
}

// waitForPipe has two threads, of which one writes to the other.
func waitForPipe(t *testing.T) {
	ends := make([]int, 2)
	if err := unix.Pipe(ends); err != nil {
		t.Fatal(err)
	}
	go func() {
		runtime.LockOSThread()
		for end := time.Now().Add(waitingFor); time.Now().Before(end); {
			pause := unix.NsecToTimespec(int64(waitingApart))
			_ = unix.Nanosleep(&pause, nil) // of this thread alone
			_, _ = unix.Write(ends[1], []byte{1})
		}
		_ = unix.Close(ends[1])
	}()
	runtime.LockOSThread()
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

func tryWaitsOfGo(t *retry.T) {
	const name = "hwwaiting"
	o := DefaultOptions()
	o.Comm = CommLabel
	o.OffCPU = OffCPU{Rate: 2 * DefaultOffCPURate, States: DefaultOffCPUStates(), Wakers: true}
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
	cmd := exec.Command(link, "-test.run=^TestWaitsOfGo$")
	cmd.Env = append(os.Environ(), waitingProgram+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	time.Sleep(time.Second) // the thread is seen to have ended
	profiles, err := s.Collect()
	if err != nil {
		t.Fatal(err)
	}
	all, right, woken := readingTime(t, profiles, name)
	t.Logf("%v in the read, %v of them known and whole, and %v woken by the writer", all, right, woken)
	if all < waitingFor/2 || all > waitingFor*2 || right < all*3/4 || woken < all/2 {
		t.Errorf("%v in the read, %v of them known and whole, and %v woken by the writer: want most of %v", all, right,
			woken, waitingFor)
	}
}

// readingTime adds up the time that the reader waits, and what of it is known to be for a pipe by a whole stack, and to
// have been ended by a thread of the process.
func readingTime(t testing.TB, profiles []Profile, name string) (all, right, woken time.Duration) {
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
			all += d
			whole := !strings.HasPrefix(frames[len(frames)-1], "[incomplete")
			if whole && slices.Contains(sample.Label["wait"], "pipe") && slices.Contains(sample.Label["state"], "sleeping") {
				right += d
			}
			if slices.Contains(sample.Label["waker"], name) {
				woken += d
			} else {
				t.Logf("%v %v %s", d, sample.Label, strings.Join(frames, " "))
			}
		}
	}
	return all, right, woken
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
