package stacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// functions returns "name file:line" of the functions that a language runtime runs, leaf first; of a method the name
// without its class if short is set.
func (s *snapshotThread) functions(short bool) (out []string) {
	for _, f := range s.ofKind("interpreted") {
		name := f.Function
		if short {
			name = name[strings.LastIndexByte(name, '.')+1:]
		}
		out = append(out, fmt.Sprintf("%s %s:%d", name, filepath.Base(f.File), f.Line))
	}
	return out
}

// startReady starts a program and waits until it prints "ready".
func startReady(t testing.TB, name string, args ...string) *rig.Process {
	t.Helper()
	process := rig.Start(t, exec.Command(name, args...))
	testkit.Eventually(t, name+" is ready", func() bool { return len(process.Output.Lines("ready")) > 0 })
	return process
}

// atRest waits until all threads of a process sleep, and have used no CPU time for half a second.
func atRest(t testing.TB, process *rig.Process) {
	t.Helper()
	pid := fmt.Sprint(process.PID())
	testkit.Eventually(t, "process "+pid+" is at rest", func() bool {
		before := rig.CPUTime(t, pid)
		time.Sleep(500 * time.Millisecond)
		files, err := filepath.Glob("/proc/" + pid + "/task/*/status")
		awake := func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && !strings.Contains(string(text), "\nState:\tS")
		}
		return err == nil && !slices.ContainsFunc(files, awake) && rig.CPUTime(t, pid) == before
	})
}

var faulthandlerLine = regexp.MustCompile(`^File "([^"]*)", line (\d+) in (.*)$`)

// TestSnapshotOfPython compares the functions of a process with those that its faulthandler writes, which shows at most
// 100 frames of a thread.
func TestSnapshotOfPython(t *testing.T) {
	t.Parallel()
	need.Tools(t, "python3")
	const most = 100
	file := filepath.Join(t.TempDir(), "stacks")
	python := startReady(t, "python3", "testdata/snapshot/waits.py", file)
	atRest(t, python)
	var ours []string
	for _, thread := range takeSnapshot(t, python.PID()).Threads {
		functions := thread.functions(true)
		if !thread.Whole || len(functions) == 0 {
			t.Errorf("thread %d: whole %v, functions %v", thread.TID, thread.Whole, functions)
		}
		ours = append(ours, fmt.Sprint(functions[:min(len(functions), most)]))
	}
	python.Signal(t, syscall.SIGUSR1)
	testkit.Eventually(t, "faulthandler writes the third stack", func() bool {
		return len(faulthandlerStacks(t, file)) == 3
	})
	atRest(t, python) // it has left the handler of the signal
	want := faulthandlerStacks(t, file)

	slices.Sort(ours)
	slices.Sort(want)
	if !slices.Equal(ours, want) {
		t.Errorf("functions\n%s\nfaulthandler has\n%s", strings.Join(ours, "\n"), strings.Join(want, "\n"))
	}
	compareDebuggers(t, python.PID())
}

// faulthandlerStacks returns the stacks that faulthandler has written to a file so far, each with its functions,
// files and lines.
func faulthandlerStacks(t *testing.T, file string) (stacks []string) {
	t.Helper()
	for block := range strings.SplitSeq(rig.ReadFile(t, file), "\n\n") {
		var functions []string
		for line := range strings.Lines(block) {
			if match := faulthandlerLine.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
				functions = append(functions, fmt.Sprintf("%s %s:%s", match[3], filepath.Base(match[1]), match[2]))
			}
		}
		stacks = append(stacks, fmt.Sprint(functions))
	}
	return stacks
}

var (
	jstackThread = regexp.MustCompile(`^"(.*)" #.* nid=(0x[0-9a-f]+|\d+) `)
	ofOneRun     = regexp.MustCompile(`(\$\d+)?/0x[0-9a-f]+`) // in names of hidden classes, which profiles leave out
	jstackLine   = regexp.MustCompile(`^at ([^(]+)\((?:[^/)]*/)?(?:(\w+\.java):(\d+)|.*)\)$`)
)

// TestSnapshotOfJava compares the methods of the threads that run Java with those that jstack prints.
func TestSnapshotOfJava(t *testing.T) {
	t.Parallel()
	need.Tools(t, "javac")
	const source = "testdata/snapshot/Waits.java"
	version, err := exec.Command("javac", "-version").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	key := []string{string(version), rig.ReadFile(t, source)}
	classes := testkit.Fixture(t, "waits.java", key, func(dir string) error {
		return exec.Command("javac", "-d", dir, source).Run()
	})
	java := startReady(t, "java", "-cp", classes, "Waits")
	atRest(t, java)
	taken := takeSnapshot(t, java.PID())
	want := jstack(t, java.PID())
	compared := 0
	for _, thread := range taken.Threads {
		if !thread.Whole {
			t.Errorf("thread %d %q is not whole: %s", thread.TID, thread.Name, thread.Reason)
		}
		theirs := want[thread.TID]
		if len(theirs) == 0 {
			continue
		}
		compared++
		var ours []string
		for _, f := range thread.ofKind("interpreted") {
			ours = append(ours, method(f.Function, filepath.Base(f.File), f.Line))
		}
		if !slices.Equal(ours, theirs) {
			t.Errorf("thread %d %q: methods\n%v, jstack has\n%v", thread.TID, thread.Name, ours, theirs)
		}
	}
	if compared < 4 {
		t.Errorf("%d threads were compared", compared)
	}
	compareDebuggers(t, java.PID())
}

// method is a method and its line, without a line that is not known: native ones have none.
func method(name, file string, line int) string {
	if line == 0 {
		return name
	}
	return fmt.Sprintf("%s %s:%d", name, file, line)
}

// jstack returns the methods of each thread by its ID.
func jstack(t testing.TB, pid int) map[int][]string {
	t.Helper()
	out, err := exec.Command("jstack", fmt.Sprint(pid)).Output()
	if err != nil {
		t.Fatalf("jstack: %v", err)
	}
	methods, tid := map[int][]string{}, 0
	for line := range strings.Lines(string(out)) {
		if match := jstackThread.FindStringSubmatch(line); match != nil {
			n, err := strconv.ParseInt(match[2], 0, 64)
			if err != nil {
				t.Fatalf("jstack: %q: %v", line, err)
			}
			tid = int(n)
		}
		if match := jstackLine.FindStringSubmatch(strings.TrimSpace(line)); match != nil && tid != 0 {
			number, _ := strconv.Atoi(match[3]) // none: a native method
			methods[tid] = append(methods[tid], method(ofOneRun.ReplaceAllString(match[1], ""), match[2], number))
		}
	}
	return methods
}

// v8Line is "at inner (/path/waits.js:3:15)", or without a name.
var v8Line = regexp.MustCompile(`^at (?:(\S+) \()?.*?([\w.]+):(\d+):\d+\)?$`)

// TestSnapshotOfNode compares the functions of the first thread with those that V8 itself writes into an Error. Lines
// are compared but for the innermost function, which went on since.
func TestSnapshotOfNode(t *testing.T) {
	t.Parallel()
	need.Tools(t, "node")
	node := startReady(t, "node", "testdata/snapshot/waits.js")
	var want []string
	for _, line := range node.Output.Lines("waits.js") {
		if match := v8Line.FindStringSubmatch(line); match != nil {
			want = append(want, match[2]+":"+match[3])
		}
	}
	var ours []string
	testkit.Eventually(t, "node waits", func() bool {
		first := takeSnapshot(t, node.PID()).Threads[0]
		ours = nil
		for _, f := range first.ofKind("interpreted") {
			if filepath.Base(f.File) == "waits.js" {
				ours = append(ours, fmt.Sprintf("waits.js:%d", f.Line))
			}
		}
		return first.Whole && first.Wait == "lock"
	})

	if len(want) != 8 || len(ours) != len(want) || !slices.Equal(ours[1:], want[1:]) {
		t.Errorf("functions at %v, V8 has %v", ours, want)
	}
	compareDebuggers(t, node.PID())
}
