package stacks

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// coreSnapshot is what headwater stack --core prints as JSON.
type coreSnapshot struct {
	snapshot
	Core struct {
		Signal string   `json:"signal"`
		Notes  []string `json:"notes"`
	} `json:"core"`
}

// readCore shows a core file, as a user without privileges if that is one's own.
func readCore(t testing.TB, core string, args ...string) (s coreSnapshot) {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), append([]string{"stack", "--json", "--core", core}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("headwater stack --core: %v", err)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("headwater stack --core: %v\n%s", err, out)
	}
	return s
}

// dumpCore has gdb write the core of a process that runs.
func dumpCore(t testing.TB, pid int) (core string) {
	t.Helper()
	need.Tools(t, "gdb")
	core = filepath.Join(t.TempDir(), "core")
	out, err := exec.Command("gdb", "-batch", "-nx", "-p", fmt.Sprint(pid), "-ex", "gcore "+core).CombinedOutput()
	if _, missing := os.Stat(core); err != nil || missing != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	return core
}

// nativeCore returns "module+address" of the frames of each thread of a core, as eu-stack has them.
func nativeCore(t testing.TB, core string) map[int][]string {
	t.Helper()
	stacks := map[int][]string{}
	for tid, frames := range nativeThreads(t, "--core", core) {
		stacks[tid] = withoutVersions(namesOf(frames))
	}
	return stacks
}

var libraryVersion = regexp.MustCompile(`(\.so\.\d+)[.\d]*`)

// withoutVersions cuts off of the names of libraries what only the names of their files have: libstdc++.so.6.0.30.
func withoutVersions(frames []string) (out []string) {
	for _, f := range frames {
		out = append(out, libraryVersion.ReplaceAllString(f, "$1"))
	}
	return out
}

// compareCore compares each thread of a core with eu-stack, frame by frame.
func compareCore(t testing.TB, s *coreSnapshot, core string) {
	t.Helper()
	want := nativeCore(t, core)
	if len(want) != len(s.Threads) || len(want) == 0 || len(s.Core.Notes) > 0 {
		t.Errorf("%d threads, eu-stack has %d; notes %q", len(s.Threads), len(want), s.Core.Notes)
	}
	frames := 0
	for _, thread := range s.Threads {
		ours := withoutVersions(thread.addresses(t))
		frames += len(ours)
		if !thread.Whole || !slices.Equal(ours, want[thread.TID]) {
			t.Errorf("thread %d: whole %v, frames\n%v, eu-stack has\n%v", thread.TID, thread.Whole, ours, want[thread.TID])
		}
	}
	t.Logf("%d threads, %d frames", len(s.Threads), frames)
}

// TestCoreOfServer compares the fifty threads of a C++ server with eu-stack, and with what the process itself showed.
func TestCoreOfServer(t *testing.T) {
	testkit.Nightly(t, "TestCoreOfPython reads a core, and TestSnapshotOfServer the threads of this program")
	t.Parallel()
	need.Tools(t, "g++")
	server := startServer(t)
	live := takeSnapshot(t, server.PID())
	core := dumpCore(t, server.PID())
	s := readCore(t, core)
	compareCore(t, &s, core)
	lines := map[int]string{}
	for _, thread := range live.Threads {
		lines[thread.TID] = fmt.Sprint(thread.lines())
	}
	for _, thread := range s.Threads {
		if got := fmt.Sprint(thread.lines()); got != lines[thread.TID] {
			t.Errorf("thread %d: lines\n%s, of the process\n%s", thread.TID, got, lines[thread.TID])
		}
	}
	if s.PID != server.PID() || s.Core.Signal != "" {
		t.Errorf("process %d, signal %q", s.PID, s.Core.Signal)
	}
}

// TestCoreOfFio compares the threads of Debian's stripped fio with eu-stack.
func TestCoreOfFio(t *testing.T) {
	testkit.Nightly(t, "TestCoreOfServer compares a core with eu-stack, and TestSnapshotOfFio fio")
	t.Parallel()
	fio := rig.StartFio(t, 600)
	var workers []int
	testkit.Eventually(t, "fio has a worker", func() bool {
		workers = rig.Children(t, fio.PID())
		return len(workers) == 1
	})

	for _, pid := range []int{fio.PID(), workers[0]} {
		core := dumpCore(t, pid)
		s := readCore(t, core)
		compareCore(t, &s, core)
	}
}

// TestCoreOfPython: the functions of Python are also read from a core.
func TestCoreOfPython(t *testing.T) {
	t.Parallel()
	need.Tools(t, "python3")
	python := startReady(t, "python3", "testdata/snapshot/waits.py", filepath.Join(t.TempDir(), "stacks"))
	atRest(t, python)
	want := map[int]string{}
	for _, thread := range takeSnapshot(t, python.PID()).Threads {
		want[thread.TID] = fmt.Sprint(thread.functions(false))
	}
	core := dumpCore(t, python.PID())
	s := readCore(t, core)
	compareCore(t, &s, core)
	for _, thread := range s.Threads {
		if got := fmt.Sprint(thread.functions(false)); got != want[thread.TID] || got == "[]" {
			t.Errorf("thread %d: functions\n%s, of the process\n%s", thread.TID, got, want[thread.TID])
		}
	}
}

// crashCore compiles a program that ends by SIGSEGV, and returns it and its core. gdb writes that: where the kernel
// puts its own is up to the host.
func crashCore(t testing.TB) (program, core string) {
	t.Helper()
	need.Tools(t, "gdb", "gcc")
	dir := t.TempDir()
	program, core = filepath.Join(dir, "crash"), filepath.Join(dir, "core")
	rig.Compile(t, "gcc", append(slices.Clone(rig.WithoutFramePointers), "-g", "-pthread", "-Wl,--build-id", "-o", program,
		"testdata/programs/crash.c")...)
	out, err := exec.Command("gdb", "-batch", "-nx", "-ex", "run", "-ex", "gcore "+core, program).CombinedOutput()
	if _, missing := os.Stat(core); err != nil || missing != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
	return program, core
}

// TestCoreOfCrash: the signal and its thread are said, and a program that is not the same is not used.
func TestCoreOfCrash(t *testing.T) {
	t.Parallel()
	program, core := crashCore(t)
	s := readCore(t, core)
	functions := func(s *coreSnapshot) (out []string) {
		for _, f := range s.Threads[0].Frames {
			out = append(out, f.Function)
		}
		return out
	}
	want := []string{"read_from", "crash", "main"}
	got := functions(&s)
	if s.Core.Signal != "SIGSEGV, no memory at 0x30" || len(got) < 4 || !slices.Equal(got[:3], want) {
		t.Errorf("signal %q, functions %v", s.Core.Signal, got)
	}
	text, _, code := stackOutput(t, exec.Command(rig.Binary(t), "stack", "--core", core))
	if heading := fmt.Sprintf("Thread %d \"crash\" (SIGSEGV, no memory at 0x30)", s.PID); code != 0 ||
		!strings.Contains(text, heading) || strings.Count(text, "Thread ") != 2 {
		t.Errorf("exit code %d, no %q in\n%s", code, heading, text)
	}

	moved := program + ".moved"
	if err := os.Rename(program, moved); err != nil {
		t.Fatal(err)
	}
	s = readCore(t, core)
	if want := []string{program + " does not exist: its frames have no names"}; !slices.Equal(s.Core.Notes, want) {
		t.Errorf("notes %q, want %q", s.Core.Notes, want)
	}
	if s = readCore(t, core, "--exe", moved); !slices.Equal(functions(&s)[:3], want) || len(s.Core.Notes) > 0 {
		t.Errorf("functions %v, notes %q", functions(&s), s.Core.Notes)
	}
	rig.Compile(t, "gcc", "-O0", "-pthread", "-Wl,--build-id", "-o", program, "testdata/programs/crash.c")
	s = readCore(t, core)
	if len(s.Core.Notes) != 1 || !strings.Contains(s.Core.Notes[0], program+" is not the mapped file") ||
		s.Threads[0].Whole || s.Threads[0].Frames[0].Module != program || s.Threads[0].Frames[0].Function != "" {
		t.Errorf("notes %q, thread %+v", s.Core.Notes, s.Threads[0])
	}
}

// TestCoreTruncated: what cannot be read has a sentence that says why, and exit code 2. A whole core takes no
// privileges.
func TestCoreTruncated(t *testing.T) {
	t.Parallel()
	_, core := crashCore(t)
	content, err := os.ReadFile(core)
	if err != nil {
		t.Fatal(err)
	}
	dir := rig.PublicDir(t)
	testkit.CopyProgram(t, rig.Binary(t), dir+"/headwater")
	for _, test := range []struct {
		name string
		part []byte
		code int
		want string
	}{
		{"half", content[:len(content)/2], 2, "bytes are missing; it has no threads"}, // gdb writes them last
		{"whole", content, 0, "SIGSEGV"},
		{"headers", content[:200], 2, "truncated too early"},
		{"text", []byte("no core"), 2, "it is not an ELF file"},
	} {
		path := filepath.Join(dir, test.name)
		if err := os.WriteFile(path, test.part, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(dir+"/headwater", "stack", "--core", path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, errors, code := stackOutput(t, cmd)
		if code != test.code || !strings.Contains(out+errors, test.want) {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", test.name, code, test.want, out, errors)
		}
	}
}
