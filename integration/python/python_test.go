// Package python profiles programs in Python, and compares what their stacks show with what the
// programs say themselves.
package python

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/integration/lab"
	"github.com/headwater/headwater/integration/testkit/need"
)

func TestMain(m *testing.M) { lab.Main(m) }

// pythons are the interpreters to test with: Debian's, and those that the environment variable
// HEADWATER_PYTHONS lists.
func pythons() []string {
	return append([]string{"/usr/bin/python3"}, filepath.SplitList(os.Getenv("HEADWATER_PYTHONS"))...)
}

// seconds is how long a program runs.
const seconds = "2"

// evaluation is the native function that runs Python functions.
const evaluation = "_PyEval_EvalFrameDefault"

// ways are those of testdata/busy.py, and how many native evaluation frames a stack has at least.
var ways = []struct {
	name        string
	evaluations int
}{
	{"plain", 1}, {"generators", 1}, {"exceptions", 1}, {"native", 2}, {"keys", 2}, {"coroutines", 2},
	{"threads", 1}, {"fork", 1}, {"processes", 1}, {"deep", 1}, {"without_gil", 1},
}

// TestWays: whatever way a function was called, its stack is the one that the program has
// printed, and lies whole among the native frames.
func TestWays(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	for _, python := range pythons() {
		for _, way := range ways {
			t.Run(filepath.Base(python)+"/"+way.name, func(t *testing.T) {
				evaluations := way.evaluations
				if python != pythons()[0] {
					evaluations = 0 // the loop may lie in its cold part, which has no name when it is stripped
				}
				checkWay(t, []string{python}, way.name, evaluations)
			})
		}
	}
}

// TestDisabled: the argument leaves the native frames alone.
func TestDisabled(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	o := ebpf.DefaultOptions()
	o.Python = false
	evaluations := 0
	p := profileBy(t, o, func() {
		if out, err := exec.Command(pythons()[0], "testdata/busy.py", "plain", seconds).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	for _, s := range p.Sample {
		native, python := framesOf(s)
		evaluations += count(native, evaluation)
		if len(python) > 0 {
			t.Errorf("functions of Python are shown: %s", python)
		}
	}
	if evaluations < 100 {
		t.Errorf("%d native frames of the interpreter were sampled, want 100", evaluations)
	}
}

// embedded is the program of testdata/embedded.c.
const embedded = "server"

// TestEmbedded: a stripped program that has Python as a library is like any other.
func TestEmbedded(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "strip", "/usr/include/python3.11/Python.h")
	program := filepath.Join(t.TempDir(), embedded)
	lab.Compile(t, "gcc", "-O2", "-s", "-I/usr/include/python3.11", "-o", program, "testdata/embedded.c", "-lpython3.11")
	checkWay(t, []string{program}, "native", 2)
}

func checkWay(t *testing.T, command []string, way string, evaluations int) {
	t.Helper()
	program, err := filepath.Abs("testdata/busy.py")
	if err != nil {
		t.Fatal(err)
	}
	p, said := record(t, append(command, program, way, seconds)...)
	c := compareStacks(p, said, evaluations)
	t.Logf("%d samples in Python, %d with frames of it, %d as the program has said", c.inPython, c.named, c.right)
	for _, wrong := range c.wrong[:min(len(c.wrong), 5)] {
		t.Errorf("%s\nThe program has printed:\n%s", wrong, strings.ReplaceAll(said[0], "\t", "\n"))
	}
	if c.loops < c.right*9/10 {
		t.Errorf("%d of %d stacks have %d frames of %s", c.loops, c.right, evaluations, evaluation)
	}
	if share := float64(c.named) / float64(c.inPython); c.right < 100 || share < 0.97 {
		t.Errorf("%.1f %% of %d samples have Python frames, %d stacks were compared; want 97 %% and 100",
			100*share, c.inPython, c.right)
	}
}

// comparison is what came of the samples of a program.
type comparison struct {
	inPython int      // samples with a native evaluation frame
	named    int      // those with frames of Python
	right    int      // of those that had printed their stack, those that show the same
	loops    int      // of these, those with as many native evaluation frames by their name
	wrong    []string // the others
}

// compareStacks compares samples with the stacks that threads of the program have printed.
func compareStacks(p *profile.Profile, said []string, evaluations int) (c comparison) {
	for _, s := range p.Sample {
		n := int(s.Value[0] / p.Period)
		native, python := framesOf(s)
		runs := count(native, evaluation)
		if runs == 0 && len(python) == 0 {
			continue
		}
		c.inPython += n
		if len(python) == 0 {
			continue
		}
		c.named += n
		at := slices.IndexFunc(python, func(f string) bool { return strings.HasPrefix(f, "burn|") }) + 1
		if at == 0 && !strings.HasPrefix(python[0], "without_gil|") || at > 0 && strings.HasPrefix(python[0], "say|") {
			continue // on the way there, or back
		}
		stack := strings.Join(withoutLine(python[at:], at == 0), "\t")
		switch {
		case !slices.Contains(said, stack):
			c.wrong = append(c.wrong, fmt.Sprintf("%d samples have a stack that nobody has printed:\n%s", n,
				strings.ReplaceAll(stack, "\t", "\n")))
		case !whole(native):
			c.wrong = append(c.wrong, fmt.Sprintf("%d samples have a part of the stack: %s", n, native))
		default:
			c.right += n
			if runs >= evaluations {
				c.loops += n
			}
		}
	}
	return c
}

// withoutLine takes off the line of the first frame, which runs.
func withoutLine(frames []string, runs bool) []string {
	if !runs {
		return frames
	}
	frames = slices.Clone(frames)
	frames[0] = frames[0][:strings.LastIndex(frames[0], "|")]
	return frames
}

// whole reports whether a native stack goes on to where threads and programs begin.
func whole(native []string) bool {
	root := native[len(native)-1]
	return root == "_start" || strings.HasPrefix(root, embedded+"+") || strings.Contains(root, "clone")
}

func count(all []string, name string) (n int) {
	for _, s := range all {
		if s == name {
			n++
		}
	}
	return n
}

// framesOf returns the native functions of a sample, and the Python ones as the program prints
// them, both leaf first.
func framesOf(s *profile.Sample) (native, python []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			f := line.Function
			if l.Mapping != nil && strings.HasPrefix(l.Mapping.File, "[python 3.") {
				python = append(python, fmt.Sprintf("%s|%s|%d|%d", f.Name, f.Filename, f.StartLine, line.Line))
			} else {
				native = append(native, f.Name)
			}
		}
	}
	return native, python
}

// record profiles a command and what it starts, until it says that it is done. The command stays until it was profiled:
// functions that are gone before they were read have no lines. said are the stacks that they print.
func record(t *testing.T, command ...string) (p *profile.Profile, said []string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p = profileOf(t, func() {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && lines.Text() != "done" {
			first, rest, _ := strings.Cut(lines.Text(), "\t")
			if strings.HasPrefix(first, "without_gil|") {
				first = first[:strings.LastIndex(first, "|")] // it runs
			}
			said = append(said, first+"\t"+rest)
		}
		if lines.Err() != nil {
			t.Fatal(lines.Err())
		}
	})
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(said) == 0 {
		t.Fatal("the program said nothing")
	}
	return p, said
}

// profileOf profiles the host while something runs.
func profileOf(t *testing.T, run func()) *profile.Profile {
	t.Helper()
	return profileBy(t, ebpf.DefaultOptions(), run)
}

// profileBy profiles the host by options while something runs.
func profileBy(t *testing.T, o ebpf.Options, run func()) *profile.Profile {
	t.Helper()
	o.Comm, o.SampleRate, o.KernelStacks = ebpf.CommNone, 497, false
	o.DefaultTarget = map[string]string{"service_name": "host"}
	session, err := ebpf.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	run()
	profiles, err := session.Collect()
	if err != nil {
		t.Fatal(err)
	}
	if len(profiles) != 1 {
		t.Fatalf("%d profiles, want that of the host", len(profiles))
	}
	return profiles[0].Pprof
}
