// Package python profiles programs in Python, and compares what their stacks show with what the
// programs say themselves.
package python

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/ebpf/language/cpython"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// pythons are the interpreters to test with: Debian's, and those that the environment variable
// HEADWATER_PYTHONS lists.
func pythons() []string {
	return append([]string{"/usr/bin/python3"}, filepath.SplitList(os.Getenv("HEADWATER_PYTHONS"))...)
}

// evaluation is the native function that runs Python functions.
const evaluation = "_PyEval_EvalFrameDefault"

// ways are the ways in testdata/busy.py, with the minimum number of native evaluation frames in a stack.
var ways = []struct {
	name        string
	evaluations int
}{
	{"plain", 1}, {"generators", 1}, {"exceptions", 1}, {"native", 2}, {"keys", 2}, {"coroutines", 2},
	{"threads", 1}, {"fork", 1}, {"processes", 1}, {"deep", 1}, {"without_gil", 1},
}

// TestWays: for every way to call a function, its stack equals the one that the program has printed, and is complete
// among the native frames.
func TestWays(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	t.Parallel()
	for _, python := range pythons() {
		programs := make([]*program, 0, len(ways))
		for _, way := range ways {
			p := newProgram(t, way.name, way.evaluations, python)
			if python != pythons()[0] {
				p.evaluations = 0 // the loop may be in its cold part, which has no name after stripping
			}
			programs = append(programs, p)
		}
		profilePrograms(t, programs)
		for _, p := range programs {
			t.Run(filepath.Base(python)+"/"+p.way, p.check)
		}
	}
}

// TestInterpreters: the functions of a thread are those of the interpreter that it runs.
func TestInterpreters(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	t.Parallel()
	for _, python := range pythons() {
		t.Run(filepath.Base(python), func(t *testing.T) {
			programs := []*program{newProgram(t, "interpreter", 0, python), newProgram(t, "interpreters", 0, python)}
			for _, p := range programs {
				p.another = true
			}
			profilePrograms(t, programs)
			for _, p := range programs {
				t.Run(p.way, p.checkAnother)
			}
		})
	}
}

// TestDisabled: the argument only leaves the native frames.
func TestDisabled(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3")
	t.Parallel()
	o := ebpf.Options{}
	o.LanguagesOff = map[string]bool{cpython.Name: true}
	p := newProgram(t, "plain", 1, pythons()[0])
	session := start(t, o, p)
	p.start(t)
	testkit.Eventually(t, "100 native frames of the interpreter were sampled", func() bool {
		p.samples = append(p.samples, collect(t, session)[p.name]...)
		evaluations := 0
		for _, s := range p.samples {
			evaluations += s.n * count(s.native, evaluation)
		}
		return evaluations >= 100
	})
	for _, s := range p.samples {
		if len(s.python) > 0 {
			t.Errorf("functions of Python are shown: %s", s.python)
		}
	}
	p.stop(t)
}

// embedded is the program of testdata/embedded.c.
const embedded = "server"

// TestEmbedded: a stripped program that has Python as a library is like any other.
func TestEmbedded(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "strip", "/usr/include/python3.11/Python.h")
	t.Parallel()
	path := filepath.Join(t.TempDir(), embedded)
	rig.Compile(t, "gcc", "-O2", "-s", "-I/usr/include/python3.11", "-o", path, "testdata/embedded.c", "-lpython3.11")
	p := newProgram(t, "native", 2, path)
	profilePrograms(t, []*program{p})
	p.check(t)
	t.Run("another interpreter", func(t *testing.T) {
		p := newProgram(t, "native", 2, path)
		p.cmd.Env = append(os.Environ(), "ANOTHER=1")
		profilePrograms(t, []*program{p})
		p.checkAnother(t)
	})
}

// checkAnother judges the samples of a program that runs another interpreter. Samples without functions decide nothing:
// before Python 3.12 those of a thread that waits for the lock have none.
func (p *program) checkAnother(t *testing.T) {
	t.Helper()
	c := compareStacks(p.samples, p.said(), p.evaluations)
	t.Logf("%d samples in Python, %d with frames of it, %d as the program has said", c.inPython, c.named, c.right)
	if c.right < enough || c.other > 0 {
		t.Errorf("%d stacks as the program has said, %d in another way: %s", c.right, c.other, c.wrong)
	}
}

// TestGreenlets: the stack of a greenlet ends at its start, independent of the code that switches to it.
func TestGreenlets(t *testing.T) {
	need.Root(t)
	need.Tools(t, "python3", "/usr/lib/python3/dist-packages/greenlet/__init__.py")
	t.Parallel()
	for _, python := range pythons() {
		if exec.Command(python, "-c", "import greenlet").Run() != nil {
			continue
		}
		t.Run(filepath.Base(python), func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, "greenlets", 0, python)
			profilePrograms(t, []*program{p})
			p.check(t)
			for _, s := range p.samples {
				for _, frame := range s.python {
					if strings.HasPrefix(frame, "burn|") && slices.ContainsFunc(s.python, isMain) {
						t.Errorf("a greenlet has the main one's frames: %v", s)
					}
				}
			}
		})
	}
}

// isMain reports whether a frame is of the way itself, which is no greenlet's.
func isMain(frame string) bool { return strings.HasPrefix(frame, "greenlets|") }

// program runs testdata/busy.py in one way, in a cgroup of its own: it may have several processes.
type program struct {
	way, name   string
	evaluations int // how many native evaluation frames a stack has at least
	cmd         *exec.Cmd
	process     *rig.Process
	stdin       io.Closer
	samples     []sample
	another     bool // it runs in another interpreter than the first one of the process
}

// newProgram returns the program of a way that an interpreter will run.
func newProgram(t *testing.T, way string, evaluations int, python string) *program {
	t.Helper()
	script, err := filepath.Abs("testdata/busy.py")
	if err != nil {
		t.Fatal(err)
	}
	return &program{way: way, name: t.Name() + "/" + filepath.Base(python) + "/" + way, evaluations: evaluations,
		cmd: exec.Command(python, script, way)}
}

// container returns the ID in the cgroup, in the form of a container's ID.
func (p *program) container() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(p.name))) }

func (p *program) start(t *testing.T) {
	t.Helper()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.process, p.stdin = rig.StartInCgroup(t, "docker-"+p.container()+".scope", p.cmd), stdin
}

// stop ends the program by the end of its standard input.
func (p *program) stop(t *testing.T) {
	t.Helper()
	p.stdin.Close()
	if code := p.process.Wait(t, 2*time.Minute); code != 0 {
		t.Errorf("%s has ended with code %d:\n%s", p.name, code, p.process.Output)
	}
}

// said returns the stacks that the program has printed so far.
func (p *program) said() (stacks []string) {
	for line := range strings.Lines(p.process.Output.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // the rest of it is on its way
		}
		first, rest, more := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(first, "without_gil|") {
			first = first[:strings.LastIndex(first, "|")] // it runs
		}
		if more {
			first += "\t" + rest
		}
		stacks = append(stacks, first)
	}
	return stacks
}

// enough is how many stacks of each program are compared.
const enough = 100

// profilePrograms profiles programs at once until enough stacks of each were compared. The programs stay until then:
// functions that are gone before they were read have no lines.
func profilePrograms(t *testing.T, programs []*program) {
	t.Helper()
	session := start(t, ebpf.Options{}, programs...)
	for _, p := range programs {
		p.start(t)
	}
	compared, last := map[string]int{}, map[string]comparison{}
	defer func() {
		t.Logf("stacks compared: %v", compared)
		for name, c := range last {
			if compared[name] < enough {
				t.Logf("%s at last: %d samples in Python, %d with frames of it, %d as the program has said, %d in another way",
					name, c.inPython, c.named, c.right, c.other)
			}
		}
	}()
	testkit.Eventually(t, fmt.Sprint(enough, " stacks of each program were compared"), func() bool {
		time.Sleep(time.Second)
		byName, least := collect(t, session), enough
		for _, p := range programs {
			if p.process.Ended() {
				t.Fatalf("%s has ended: %v\n%s", p.name, p.process.Err, p.process.Output)
			}
			if p.another {
				withoutCallers(byName[p.name])
			}
			c := compareStacks(byName[p.name], p.said(), p.evaluations)
			last[p.name] = c
			// The first samples may lack the symbols of the interpreter, and lines of functions that are read later.
			if len(p.samples) > 0 || c.loops > 0 && c.noLine == 0 {
				p.samples = append(p.samples, byName[p.name]...)
				compared[p.name] += c.right + c.other
			}
			least = min(least, compared[p.name])
		}
		return least >= enough
	})
	for _, p := range programs {
		p.stop(t)
	}
}

// check judges the samples of the program.
func (p *program) check(t *testing.T) {
	t.Helper()
	said := p.said()
	c := compareStacks(p.samples, said, p.evaluations)
	t.Logf("%d samples in Python, %d with frames of it, %d as the program has said", c.inPython, c.named, c.right)
	for _, wrong := range c.wrong[:min(len(c.wrong), 5)] {
		t.Errorf("%s\nThe program has printed:\n%s", wrong, strings.ReplaceAll(strings.Join(said, "\n"), "\t", "\n"))
	}
	if c.noLine > c.right/10 {
		t.Errorf("%d stacks lack the line of a frame, %d are right", c.noLine, c.right)
	}
	if c.loops < c.right*9/10 {
		t.Errorf("%d of %d stacks have %d frames of %s", c.loops, c.right, p.evaluations, evaluation)
	}
	if share := float64(c.named) / float64(c.inPython); c.right < enough || share < 0.97 {
		t.Errorf("%.1f %% of %d samples have Python frames, %d stacks were compared; want 97 %% and %d",
			100*share, c.inPython, c.right, enough)
	}
}

// comparison is the result for the samples of a program.
type comparison struct {
	inPython int      // samples with a native evaluation frame
	named    int      // samples with frames of Python
	right    int      // samples whose stack has been printed
	noLine   int      // samples that only differ by a frame without a line
	other    int      // all other samples
	loops    int      // of right, those with at least as many native evaluation frames as expected
	wrong    []string // descriptions of other
}

// compareStacks compares samples with the stacks that threads of the program have printed.
func compareStacks(samples []sample, said []string, evaluations int) (c comparison) {
	for _, s := range samples {
		n, native, python := s.n, s.native, s.python
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
		case lacksLine(python[at:], said, at == 0):
			c.noLine += n
		case !slices.Contains(said, stack):
			c.other += n
			c.wrong = append(c.wrong, fmt.Sprintf("%d samples have a stack that nobody has printed:\n%s", n,
				strings.ReplaceAll(stack, "\t", "\n")))
		case unread(native): // its names come with later samples
		case !whole(native):
			c.other += n
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

// withoutCallers takes off the frames that stand for functions of the interpreter that has called the other one.
func withoutCallers(samples []sample) {
	for i := range samples {
		s := &samples[i]
		for n := len(s.python); n > 0 && strings.HasSuffix(strings.Split(s.python[n-1], "|")[0], " code, not read]"); n-- {
			s.python = s.python[:n-1]
		}
	}
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

// lacksLine reports whether a stack is one that was said, but for lines that are not known: 0.
func lacksLine(frames, said []string, runs bool) bool {
	frames = slices.Clone(frames)
	lacks := false
	for i, f := range frames {
		if head, ok := strings.CutSuffix(f, "|0"); ok && !(runs && i == 0) {
			frames[i], lacks = head, true
		}
	}
	return lacks && slices.ContainsFunc(said, func(stack string) bool {
		return slices.EqualFunc(withoutLine(frames, runs), strings.Split(stack, "\t"), func(ours, said string) bool {
			return ours == said || ours == said[:strings.LastIndex(said, "|")]
		})
	})
}

// whole reports whether a native stack reaches the start of a thread or program.
func whole(native []string) bool {
	root := native[len(native)-1]
	return root == "_start" || strings.HasPrefix(root, embedded+"+") || strings.Contains(root, "clone") ||
		strings.Contains(root, "greenlet")
}

// unread reports whether the outermost function has no name, because the profiler has not read the symbols of the
// interpreter's file in time.
func unread(native []string) bool {
	return strings.HasPrefix(native[len(native)-1], "python3.") && strings.Contains(native[len(native)-1], "+0x")
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

// sample is a stack of a process, and how often it was sampled.
type sample struct {
	n              int
	native, python []string // as of framesOf
}

// start profiles programs with options until the test ends, or the whole host if there are none. It starts before the
// programs do.
func start(t *testing.T, o ebpf.Options, programs ...*program) *ebpf.Session {
	t.Helper()
	o.Comm, o.SampleRate, o.NoKernelStacks, o.TargetsOnly = ebpf.CommLabel, 497, true, len(programs) > 0
	o.DefaultTarget = map[string]string{"service_name": "host"}
	for _, p := range programs {
		o.Targets = append(o.Targets, map[string]string{"__container_id__": p.container(), "service_name": p.name})
	}
	session, err := ebpf.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// collect returns a session's samples since the last call, by the name of the program, or of the process for the whole
// host. It returns no samples if the session did not wait for a file: then names and stacks may lack the file's
// information.
func collect(t *testing.T, session *ebpf.Session) map[string][]sample {
	t.Helper()
	late := session.Stats().FilesLate
	profiles, err := session.Collect()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string][]sample{}
	if late += session.Stats().FilesLate; late > 0 {
		t.Logf("files are late, such as of %v: samples are left out", session.Waiting())
		return byName
	}
	for _, p := range profiles {
		for _, s := range p.Pprof.Sample {
			name := p.Labels["service_name"]
			if name == "host" {
				name = s.Label["comm"][0]
			}
			native, python := framesOf(s)
			byName[name] = append(byName[name], sample{int(s.Value[0] / p.Pprof.Period), native, python})
		}
	}
	return byName
}
