package endurance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/fuse"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// stopLimit is how long a stop may take, whatever hangs, but for the time in which something waited for a CPU.
const stopLimit = 5 * time.Second

// TestStopWhileFilesHang stops the profiler while file systems have taken its requests and do not answer: the file
// system of a program's root and executable, one below an overlay that a user has mounted, and one with a mapped file.
// No signal ends a thread that waits for such an answer, so it must not be a thread of the profiler.
func TestStopWhileFilesHang(t *testing.T) {
	need.Root(t)
	t.Parallel()
	host := startHanging(t)
	out := filepath.Join(t.TempDir(), "out.pb.gz")
	record := []string{"record", "-a", "-d", "600", "-o", out}
	tests := []struct {
		name    string
		start   func() *rig.Process
		signals int
		nightly bool
	}{
		{"run", func() *rig.Process {
			config := "pyroscope.ebpf \"host\" {\n\tforward_to = []\n\tcollect_interval = \"1s\"\n\ttargets_only = false\n}\n"
			return rig.LaunchHeadwater(t, config, nil).Process
		}, 1, false},
		{"record", func() *rig.Process { return rig.Start(t, exec.Command(rig.Binary(t), record...)) }, 1, true},
		{"record, by a second signal", func() *rig.Process {
			return rig.Start(t, exec.Command(rig.Binary(t), record...))
		}, 2, true},
	}
	for _, test := range tests {
		if test.nightly && !testkit.IsNightly() {
			continue
		}
		t.Run(test.name, func(t *testing.T) { host.stop(t, test.start(), test.signals) })
	}
	for what, pid := range host.pids {
		if testkit.IsNightly() || what == memoryHangs {
			t.Run("stack of "+what, func(t *testing.T) {
				p := rig.Start(t, exec.Command(rig.Binary(t), "stack", fmt.Sprint(pid)))
				p.Wait(t, time.Minute) // it reports a partial result; it would never end with a thread that hangs
			})
		}
	}
	host.server.Answer(t)
	for _, pid := range host.left {
		testkit.Eventually(t, "what was left behind ends once the server answers", func() bool {
			return syscall.Kill(pid, 0) != nil
		})
	}
}

// hangingHost has processes whose files hang.
type hangingHost struct {
	server *fuse.Server
	pids   map[string]int
	left   []int // processes left behind by the profiler
}

const memoryHangs = "a process whose memory hangs"

// startHanging starts them. The file system hangs from then on.
func startHanging(t *testing.T) *hangingHost {
	t.Helper()
	need.Tools(t, "gcc", "nsenter", "unshare", "mount")
	dir := rig.PublicDir(t)
	files := map[string][]byte{"description": make([]byte, 4096)}
	for _, name := range []string{"hwdark", "hwoverlay"} {
		path := filepath.Join(dir, name)
		buildHostile(t, path, name)
		files[name] = []byte(rig.ReadFile(t, path))
	}
	server := fuse.Mount(t, dir, files)
	host := &hangingHost{server: server, pids: map[string]int{}}
	add := func(what string, p *rig.Process) {
		p.WaitBusy(t)
		host.pids[what] = p.PID()
	}
	add("a process on a mount that hangs", startAsNobody(t, server.Dir, "/hwdark", "burn"))
	for _, name := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// From the root of the mount namespace: a user namespace cannot be created below another root.
	add("a process on an overlay", rig.Start(t, exec.Command("nsenter", "--mount=/proc/self/ns/mnt", "--wd="+dir,
		"unshare", "-Urm", "sh", "-c", "mount -t overlay -o lowerdir=fuse,upperdir=upper,workdir=work overlay merged && "+
			"exec merged/hwoverlay burn")))
	if runtime.GOARCH == "amd64" { // there are no unwind rules for Java on other architectures
		held, library := filepath.Join(dir, "held"), filepath.Join(dir, "libjvm.so")
		rig.WriteFile(t, held+".c", fuse.Held)
		rig.WriteFile(t, library+".c", fuse.HeldLibrary)
		rig.Compile(t, "gcc", "-O2", "-o", held, held+".c", "-ldl")
		rig.Compile(t, "gcc", "-O2", "-shared", "-fPIC", "-o", library, library+".c")
		p := rig.Start(t, exec.Command(held, library, filepath.Join(server.Dir, "description")))
		testkit.Eventually(t, "the program is ready", func() bool { return p.Output.String() != "" })
		server.Hang(t)
		p.Signal(t, syscall.SIGUSR1)
		add(memoryHangs, p)
		return host
	}
	server.Hang(t)
	return host
}

// stop stops a profiler once it has met all that hangs.
func (host *hangingHost) stop(t *testing.T, p *rig.Process, signals int) {
	t.Helper()
	testkit.Eventually(t, "something waits for all that hangs", func() bool {
		if p.Ended() {
			t.Fatalf("it has ended: %v\n%s", p.Err, p.Output.Tail(20))
		}
		waiting := threadsWaiting(t, p.PID())
		for _, child := range rig.Children(t, p.PID()) {
			waiting += threadsWaiting(t, child)
		}
		return waiting >= len(host.pids)
	})
	children := rig.Children(t, p.PID())
	began, stalled := time.Now(), stalledTime()
	for range signals {
		p.Signal(t, syscall.SIGTERM)
		time.Sleep(50 * time.Millisecond)
	}
	p.Wait(t, time.Minute)
	took := time.Since(began)
	stalled = min(took, stalledTime()-stalled)
	t.Logf("ended after %v, programs waited for a CPU in %v of them", took, stalled)
	if took-stalled > stopLimit {
		t.Errorf("the end took more than %v", stopLimit)
	}
	host.left = append(host.left, children...)
}

// stalledTime returns in how much time so far at least one task of this host waited for a CPU (Linux,
// Documentation/accounting/psi.rst); 0 where that is not counted.
func stalledTime() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	_, total, _ := strings.Cut(first, "total=")
	micros, _ := strconv.ParseInt(total, 10, 64)
	return time.Duration(micros) * time.Microsecond
}

// threadsWaiting returns how many threads of a process wait for the answer of a FUSE server, or for one that does:
// another profiler may have asked for the same page before.
func threadsWaiting(t testing.TB, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		where, err := os.ReadFile(file)
		if err == nil && slices.Contains([]string{"request_wait_answer", "folio_wait_bit_common"}, string(where)) {
			n++
		}
	}
	return n
}
