package stacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// What headwater stack prints as JSON.
type snapshot struct {
	PID     int              `json:"pid"`
	Threads []snapshotThread `json:"threads"`
}

type snapshotThread struct {
	TID    int             `json:"tid"`
	Name   string          `json:"name"`
	State  string          `json:"state"`
	Wait   string          `json:"wait"`
	Whole  bool            `json:"whole"`
	Reason string          `json:"reason"`
	Frames []snapshotFrame `json:"frames"`
}

type snapshotFrame struct {
	Function string `json:"function"`
	Kind     string `json:"kind"`
	Module   string `json:"module"`
	Address  string `json:"address"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Inlined  bool   `json:"inlined"`
}

func takeSnapshot(t testing.TB, pid int) (s snapshot) {
	t.Helper()
	need.Root(t)
	var out bytes.Buffer
	cmd := exec.Command(rig.Binary(t), "stack", "--json", fmt.Sprint(pid))
	cmd.Stdout = &out
	if errs, err := urgent(t, cmd); err != nil {
		t.Fatalf("headwater stack: %v\n%s", err, errs)
	}
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatalf("headwater stack: %v\n%s", err, &out)
	}
	return s
}

// ofKind returns the frames of a kind.
func (s *snapshotThread) ofKind(kind string) (out []snapshotFrame) {
	for _, f := range s.Frames {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

// addresses returns "module+address" of each native frame, leaf first; of callers the address inside the call.
func (s *snapshotThread) addresses(t testing.TB) (out []string) {
	t.Helper()
	for _, f := range s.ofKind("native") {
		if f.Inlined {
			continue
		}
		address, err := strconv.ParseUint(f.Address, 0, 64)
		if err != nil {
			t.Fatalf("frame %+v: %v", f, err)
		}
		if len(out) > 0 {
			address--
		}
		out = append(out, fmt.Sprintf("%s+0x%x", filepath.Base(f.Module), address))
	}
	return out
}

// nativeAddresses is the same of eu-stack.
func nativeAddresses(t testing.TB, tid int) (out []string) {
	t.Helper()
	return namesOf(nativeStack(t, tid))
}

func namesOf(stack []nativeFrame) (out []string) {
	for _, f := range stack {
		out = append(out, fmt.Sprintf("%s+0x%x", filepath.Base(f.module), f.vaddr))
	}
	return out
}

// startServer compiles and starts testdata/programs/server.cc, and waits until all of its threads wait.
func startServer(t testing.TB) *rig.Process {
	t.Helper()
	const source = "testdata/programs/server.cc"
	flags := append(slices.Clone(rig.WithoutFramePointers), "-g", "-pthread", "-o", output, source)
	program := compiled(t, filepath.Join(t.TempDir(), "server"), []string{source}, "g++", flags...)
	process := rig.Start(t, exec.Command(program))
	testkit.Eventually(t, "all threads of the server wait", func() bool {
		s := takeSnapshot(t, process.PID())
		waits := func(thread snapshotThread) bool { return thread.Wait != "" && thread.State == "sleeping" }
		return len(s.Threads) == 51 && !slices.ContainsFunc(s.Threads, func(t snapshotThread) bool { return !waits(t) })
	})

	return process
}

// TestSnapshotOfServer compares fifty threads with eu-stack by address, and with gdb by line, including inlined
// functions.
func TestSnapshotOfServer(t *testing.T) {
	t.Parallel()
	need.Tools(t, "eu-stack", "gdb", "g++")
	server := startServer(t)
	s := takeSnapshot(t, server.PID())
	native := nativeThreads(t, "-p", fmt.Sprint(server.PID()))
	debugger := gdbStacks(t, server.PID())
	waits := map[string]int{}
	frames := 0
	for _, thread := range s.Threads {
		waits[thread.Wait]++
		if !thread.Whole {
			t.Errorf("thread %d is not whole: %s", thread.TID, thread.Reason)
		}
		ours := thread.addresses(t)
		frames += len(ours)
		if want := namesOf(native[thread.TID]); !slices.Equal(ours, want) {
			t.Errorf("thread %d: frames\n%v, eu-stack has\n%v", thread.TID, ours, want)
		}
		lines := thread.lines()
		if !subsequence(lines, debugger[thread.TID]) {
			t.Errorf("thread %d: lines\n%v, gdb has\n%v", thread.TID, lines, debugger[thread.TID])
		}
	}
	if want := map[string]int{"lock": 14, "sleep": 13, "poll": 12, "socket": 12}; fmt.Sprint(waits) != fmt.Sprint(want) {
		t.Errorf("threads wait for %v, want %v", waits, want)
	}
	t.Logf("%d threads, %d frames", len(s.Threads), frames)
	compareDebuggers(t, server.PID())
}

// lines returns "file:line" of the frames that have a line.
func (s *snapshotThread) lines() (out []string) {
	for _, f := range s.ofKind("native") {
		if f.Line > 0 {
			out = append(out, filepath.Base(f.File)+":"+strconv.Itoa(f.Line))
		}
	}
	return out
}

// TestSnapshotStopsNobody: no waiting thread runs because of a snapshot. A debugger stops each of them.
func TestSnapshotStopsNobody(t *testing.T) {
	t.Parallel()
	need.Tools(t, "eu-stack", "g++")
	server := startServer(t)
	before := switches(t, server.PID())
	for range 5 {
		takeSnapshot(t, server.PID())
	}
	after := switches(t, server.PID())
	if after != before {
		t.Errorf("threads have been on a CPU %d times", after-before)
	}
	nativeStack(t, server.PID())
	if stopped := switches(t, server.PID()); stopped == after {
		t.Error("the count does not show that eu-stack stops a thread")
	}
}

// switches adds up how often the threads of a process have left a CPU.
func switches(t testing.TB, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("process %d has %d threads: %v", pid, len(files), err)
	}
	for _, file := range files {
		for line := range strings.Lines(rig.ReadFile(t, file)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(name, "ctxt_switches") {
				count, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				n += count
			}
		}
	}
	return n
}

var (
	gdbThread = regexp.MustCompile(`^Thread \d+ \(.*LWP (\d+)\)?.*:$`)
	gdbFrame  = regexp.MustCompile(`^#\d+\s.* at (\S+):(\d+)$`)
)

// gdbStacks returns "file:line" of the frames that gdb knows the lines of, by thread ID.
func gdbStacks(t testing.TB, pid int) map[int][]string {
	t.Helper()
	out, err := urgent(t, exec.Command("gdb", "-batch", "-nx", "-p", fmt.Sprint(pid), "-ex", "set width 0",
		"-ex", "set backtrace past-main on", "-ex", "thread apply all bt"))
	if err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	stacks, tid := map[int][]string{}, 0
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if match := gdbThread.FindStringSubmatch(line); match != nil {
			tid, _ = strconv.Atoi(match[1]) // digits
		}
		if match := gdbFrame.FindStringSubmatch(line); match != nil && tid != 0 {
			stacks[tid] = append(stacks[tid], filepath.Base(match[1])+":"+match[2])
		}
	}
	return stacks
}

// subsequence reports whether all of part is in whole, in this order: gdb also shows functions that were left by a jump
// to another function, by guessing.
func subsequence(part, whole []string) bool {
	for _, line := range part {
		at := slices.Index(whole, line)
		if at < 0 {
			return false
		}
		whole = whole[at+1:]
	}
	return len(part) > 0
}

// TestSnapshotOfFio compares the threads of Debian's stripped fio: its parent's threads wait, and its worker moves.
func TestSnapshotOfFio(t *testing.T) {
	testkit.Nightly(t, "TestSnapshotOfServer has fifty threads, TestSnapshotOfPHP a stripped program")
	t.Parallel()
	need.Tools(t, "eu-stack")
	fio := rig.StartFio(t, 600)
	var workers []int
	testkit.Eventually(t, "fio has a worker", func() bool {
		workers = rig.Children(t, fio.PID())
		return len(workers) == 1
	})

	whole := 0
	const count = 20
	left := map[string]int{} // stacks that eu-stack has not seen yet
	for range count {
		thread := takeSnapshot(t, workers[0]).Threads[0]
		if n := len(thread.Frames); thread.Whole && n > 0 && thread.Frames[n-1].Function == "_start" {
			whole++
		} else {
			t.Logf("a stack of %d frames is not whole: %s", n, thread.Reason)
		}
		left[callers(thread.addresses(t))]++
	}
	known := 0
	for looks := 0; looks < 60 && known < count/2; looks++ { // each takes a second
		seen := callers(nativeAddresses(t, workers[0]))
		known += left[seen]
		delete(left, seen)
	}
	t.Logf("%d of %d stacks whole, %d below frames that eu-stack saw", whole, count, known)
	if whole < count-2 || known < count/2 {
		t.Errorf("of %d stacks only %d are whole, and %d as eu-stack has them", count, whole, known)
	}
	compareDebuggers(t, fio.PID())
	for range 3 { // where a signal finds the worker
		compareDebuggers(t, workers[0])
	}
}

// callers are the outer half of a stack.
func callers(frames []string) string { return fmt.Sprint(frames[len(frames)/2:]) }

// stackOutput runs headwater stack and returns its output, its errors and its exit code.
func stackOutput(t testing.TB, cmd *exec.Cmd) (output, errors string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestSnapshotErrors: what cannot be shown has a sentence that says why, and exit code 2.
func TestSnapshotErrors(t *testing.T) {
	t.Parallel()
	need.Root(t)
	sleeper := rig.Start(t, exec.Command("sleep", "600"))
	pid := fmt.Sprint(sleeper.PID())
	unprivileged := rig.PublicDir(t) + "/headwater"
	testkit.CopyProgram(t, rig.Binary(t), unprivileged)
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"4194999"}, "there is no process or thread 4194999"},
		{[]string{"sleep"}, `"sleep" is no process or thread ID`},
		{nil, "accepts 1 argument, received 0"},
		{[]string{"--json", "--group", pid}, "--json and --group exclude each other"},
		{[]string{pid}, "lacks: CAP_BPF"}, // as the user nobody
	} {
		cmd := exec.Command(unprivileged, append([]string{"stack"}, test.arguments...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, errors, code := stackOutput(t, cmd)
		if code != 2 || out != "" || !strings.Contains(errors, test.want) {
			t.Errorf("%v: exit code %d, output %q, error %q; want %q", test.arguments, code, out, errors, test.want)
		}
	}
}

// TestSnapshotText: one thread of a process by its ID, threads with equal stacks once, and a thread of the kernel.
func TestSnapshotText(t *testing.T) {
	t.Parallel()
	need.Tools(t, "g++")
	server := startServer(t)
	tid := takeSnapshot(t, server.PID()).Threads[7].TID
	for _, test := range []struct {
		arguments []string
		stacks    int // at most
		want      string
	}{
		{[]string{fmt.Sprint(tid)}, 1, fmt.Sprintf("Thread %d \"server\" (sleeping: ", tid)},
		{[]string{"--group", fmt.Sprint(server.PID())}, 50, " threads "},
		{[]string{"2"}, 1, "Process 2: [kthreadd]"},
	} {
		out, errors, code := stackOutput(t, exec.Command(rig.Binary(t), append([]string{"stack"}, test.arguments...)...))
		if code != 0 || errors != "" || !strings.Contains(out, test.want) || strings.Contains(out, "[not whole") {
			t.Errorf("%v: exit code %d, error %q, no %q in\n%s", test.arguments, code, errors, test.want, out)
		}
		if stacks := strings.Count(out, "\n  [whole]"); stacks == 0 || stacks > test.stacks {
			t.Errorf("%v: %d stacks, want %d at most:\n%s", test.arguments, stacks, test.stacks, out)
		}
	}
}
