package profile

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// toy is the language of testdata/toy.c.
type toy struct {
	language.OnlyInterpreted

	program    string
	evaluation []language.Range
	top        int64 // offset of the thread-local toy_top from the thread pointer
	unnamed    error
}

// buildToy compiles the interpreter.
func buildToy(t testing.TB) *toy {
	t.Helper()
	need.Root(t)
	need.Tools(t, "gcc")
	source, err := os.ReadFile("testdata/toy.c")
	if err != nil {
		t.Fatal(err)
	}
	gcc, err := exec.Command("gcc", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "testdata/toy.c", "-o"}
	key := append([]string{string(source), string(gcc)}, args...)
	folder := testkit.Fixture(t, "toy", key, func(dir string) error {
		if out, err := exec.Command("gcc", append(args, filepath.Join(dir, "toy"))...).CombinedOutput(); err != nil {
			return fmt.Errorf("gcc: %w\n%s", err, out)
		}
		return nil
	})
	x := &toy{program: filepath.Join(folder, "toy")}
	f, err := elf.Open(x.program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		switch s.Name {
		case "toy_evaluate":
			x.evaluation = []language.Range{{Low: s.Value, High: s.Value + s.Size}}
		case "toy_top":
			x.top = threadLocal(t, f, s.Value)
		}
	}
	if len(x.evaluation) == 0 || x.top == 0 {
		t.Fatalf("%s: evaluation %v, top of the frames at %d", x.program, x.evaluation, x.top)
	}
	return x
}

// threadLocal returns the offset of a variable of the program from the thread pointer.
func threadLocal(t testing.TB, f *elf.File, value uint64) int64 {
	t.Helper()
	for _, p := range f.Progs {
		if p.Type != elf.PT_TLS {
			continue
		}
		if f.Machine == elf.EM_AARCH64 { // after two words
			return int64(value + (16+p.Align-1)&^(p.Align-1))
		}
		return int64(value) - int64((p.Memsz+p.Align-1)&^(p.Align-1))
	}
	t.Fatal("the program has no thread-local variables")
	return 0
}

func (x *toy) Detect(name string, _ *elffile.File) language.Library {
	if path.Base(name) == "toy" {
		return x
	}
	return nil
}

func (x *toy) Attach(language.Process) (language.Code, error) { return nil, language.ErrUnknown }
func (x *toy) Traits() language.Traits                        { return language.Traits{Frames: language.NamedFrames} }
func (x *toy) Evaluation() (runs, entering []language.Range)  { return x.evaluation, nil }
func (x *toy) Name() string                                   { return "[toy 1.0]" }

func (x *toy) FindFrames(language.Process) (language.FrameReader, error) {
	if x.unnamed != nil {
		return nil, x.unnamed
	}
	return x, nil
}

func (x *toy) Spec() *language.Spec {
	return &language.Spec{Everywhere: true, Chain: &language.Chain{
		Start: []language.Step{{Op: language.ThreadPointer, Offset: x.top}, {Op: language.Load}},
		Frame: language.Layout{
			Blocks: []language.Block{{Bytes: 32}, {At: language.Word{Offset: 8}, Bytes: 24}},
			Words:  []language.Word{{Offset: 0}, {Offset: 8}, {Offset: 16}, {Offset: 24}},
			Code:   1,
			Cookie: []language.Word{{Block: 1}, {Block: 1, Offset: 8}, {Block: 1, Offset: 16}},
			Texts:  []language.Text{{At: language.Word{Block: 1}, Bytes: 32}},
		},
		Next: language.Next{Word: 0},
	}}
}

func (x *toy) Frame(words []uint64) language.Frame {
	return language.Frame{Code: words[1], IP: words[2], Last: words[3] != 0}
}

func (x *toy) Function(m language.Memory, c *language.CodeObject) (language.Function, error) {
	if len(c.Text) == 0 {
		return language.Function{}, fmt.Errorf("nothing was carried")
	}
	name, _, _ := bytes.Cut(c.Text[0], []byte{0})
	line := int(c.Words[1])
	return language.Function{Name: string(name), File: "toy.script", StartLine: line, Whole: true}, nil
}

func (x *toy) Lines(f *language.Function, ip uint64, _ bool) []language.Line {
	return []language.Line{{Function: f.Name, File: f.File, StartLine: f.StartLine, Line: f.StartLine + int(ip)}}
}

var toyOptions = Options{SampleRate: 997, Comm: CommLabel}

// counted is the current state of profileToy.
type counted struct {
	samples atomic.Int64
	begun   atomic.Bool
	// ignored is a process whose samples are not counted.
	ignored atomic.Uint32
}

// profileToy profiles the programs that runs starts, and returns their profile. It starts with the first sample of the
// interpreter with a whole native stack: before that, the profiler is still reading its files.
func profileToy(t *testing.T, x *toy, o Options, runs func(c *counted)) *profile.Profile {
	t.Helper()
	files := &filework.Pool{}
	finder := target.NewFinder(target.Options{})
	var builder *Builder
	s, err := sampler.Open(sampler.Options{
		TableBytes: 64 << 20, Files: files, Languages: []language.Language{x},
		Interval: 50 * time.Millisecond,
		Target: func(pid uint32) (*target.Target, bool) { // other programs must not take time from this one
			comm, err := procfs.Default.Comm(pid)
			return finder.Find(1), err != nil || comm == "toy"
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if builder, err = New(o, s, files); err != nil {
		t.Fatal(err)
	}
	defer builder.Close()
	if err := s.Configure(sampler.Config{SampleRate: 997, UserStacks: true, TableBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var c counted
	go func() {
		ended <- s.Run(ctx, func(sample *sampler.Sample) error {
			if sample.ProcessComm != "toy" {
				return nil
			}
			if sample.Outcome.Complete() {
				c.begun.Store(true)
			}
			if c.begun.Load() && sample.PID != c.ignored.Load() {
				builder.Add(sample)
				c.samples.Add(1)
			}
			return nil
		})
	}()
	runs(&c)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	out := builder.CollectWithin(time.Minute)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(out) != 1 {
		t.Fatalf("%d profiles, want one", len(out))
	}
	return out[0].Pprof
}

// enough is a number of samples that shows the share of whole stacks: if 97 % are whole, fewer than 90 % of 500 samples
// are whole with a probability below 1e-12.
const enough = 500

// run runs the interpreter until it has enough samples.
func (x *toy) run(t *testing.T, c *counted) {
	t.Helper()
	cmd := exec.Command(x.program, "1000000")
	testkit.Run(t, cmd)
	testkit.Eventually(t, "there are enough samples of the interpreter", func() bool { return c.samples.Load() >= enough })
	_ = cmd.Process.Kill()
}

// runFor lets each thread of the interpreter use the given CPU time, in seconds.
func (x *toy) runFor(t *testing.T, seconds string) {
	if out, err := exec.Command(x.program, seconds).CombinedOutput(); err != nil {
		t.Errorf("toy: %v\n%s", err, out)
	}
}

// functionsOf returns the functions of a sample, leaf first.
func functionsOf(s *profile.Sample) (out []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			out = append(out, line.Function.Name)
		}
	}
	return out
}

// whole matches the stack of a thread of toy.c in leaf_N: each thread has functions of its own.
var whole = regexp.MustCompile(`^(?:now |clock_gettime |\S*clock_gettime\S* |\[vdso\]\S* )*` +
	`leaf_(\d) toy_evaluate native_callback middle outer_(\d) toy_evaluate run `)

// shareOfWhole returns the share of whole stacks among the samples in the evaluation, and their number. Samples just
// before or after the loop of leaf_N are not whole. Samples with an incomplete native stack, because rows of a file are
// still being read or the process is not known yet, are not counted. They must be fewer than half of the samples: their
// number depends on how long the profiler has to wait for a CPU.
func shareOfWhole(t *testing.T, p *profile.Profile) (share float64, samples int) {
	t.Helper()
	good, incomplete := 0, 0
	for _, s := range p.Sample {
		n, functions := int(s.Value[0])/int(p.Period), functionsOf(s)
		switch {
		case !slices.Contains(functions, "toy_evaluate"):
			continue
		case strings.HasPrefix(functions[len(functions)-1], "[incomplete: "):
			incomplete += n
			continue
		}
		samples += n
		text := fmt.Sprint(functionsOf(s), " ")
		m := whole.FindStringSubmatch(text[1:])
		switch {
		case m == nil:
			t.Logf("%d of %s", n, text)
		case m[1] != m[2]:
			t.Errorf("a thread has frames of another one: %s", text)
		default:
			good += n
		}
	}
	if t.Logf("%d samples are said to be incomplete", incomplete); incomplete > samples {
		t.Errorf("%d samples are said to be incomplete, and %d are not", incomplete, samples)
	}
	return float64(good) / float64(max(samples, 1)), samples
}

// TestInterpretedFrames checks that frames of an interpreter are at the place of their call in the stack.
func TestInterpretedFrames(t *testing.T) {
	x := buildToy(t)
	p := profileToy(t, x, toyOptions, func(c *counted) { x.run(t, c) })
	share, n := shareOfWhole(t, p)
	t.Logf("%d samples, %.1f %% whole", n, 100*share)
	if n < 100 || share < 0.9 {
		t.Errorf("%.1f %% of %d samples have the whole stack, want 90 %% of 100", 100*share, n)
	}
	checkFunction(t, p)
}

// TestInterpretedShortLived repeatedly runs the interpreter for a short time.
func TestInterpretedShortLived(t *testing.T) {
	x := buildToy(t)
	p := profileToy(t, x, toyOptions, func(c *counted) {
		first := exec.Command(x.program, "1000000") // all later processes have the same files
		c.ignored.Store(testkit.Run(t, first))
		testkit.Eventually(t, "the files of the interpreter are known", c.begun.Load)
		_ = first.Process.Kill()
		testkit.Eventually(t, "there are enough samples of short-lived processes", func() bool {
			x.runFor(t, "0.02")
			return c.samples.Load() >= enough
		})
	})
	share, n := shareOfWhole(t, p)
	t.Logf("%d samples, %.1f %% whole", n, 100*share)
	if n < 100 || share < 0.8 { // on busy CPUs a process may end before all of its data is read
		t.Errorf("%.1f %% of %d samples have the whole stack, want 80 %% of 100", 100*share, n)
	}
}

// TestFoldedRuntime checks that folding a program of a runtime leaves only functions of the language, and does not
// change stacks without such functions.
func TestFoldedRuntime(t *testing.T) {
	x := buildToy(t)
	o := toyOptions
	o.FoldRuntimes = true
	p := profileToy(t, x, o, func(c *counted) { x.run(t, c) })
	folded := regexp.MustCompile(`^(?:clock_gettime |\S*clock_gettime\S* |\[vdso\]\S* )*leaf_(\d) middle outer_(\d) `)
	good, samples := 0, 0
	for _, s := range p.Sample {
		functions := functionsOf(s)
		if !slices.ContainsFunc(functions, func(name string) bool { return strings.HasPrefix(name, "leaf_") }) {
			continue
		}
		n := int(s.Value[0]) / int(p.Period)
		samples += n
		if folded.MatchString(strings.Join(functions, " ") + " ") {
			good += n
		} else {
			t.Logf("%d of %s", n, functions)
		}
		if slices.Contains(functions, "toy_evaluate") || slices.Contains(functions, "native_callback") {
			t.Errorf("native frames of the runtime are shown: %s", functions)
		}
	}
	if samples < 100 || good < samples*9/10 {
		t.Errorf("%d of %d samples are folded to the functions of the language, want 90 %% of 100", good, samples)
	}
}

// TestFoldRuntime checks that frames of other files stay, and that stacks without functions of the language are
// unchanged.
func TestFoldRuntime(t *testing.T) {
	const python, libc, functions = 1, 2, 3
	native := kernel.Frame{Exe: python, Vaddr: 16}
	call := kernel.Frame{Exe: libc, Vaddr: 32}
	function := kernel.Frame{Exe: functions, Code: 5, Flags: kernel.Interpreted}
	for name, test := range map[string]struct {
		file       unwind.ExeID
		in, folded []kernel.Frame
	}{
		"between":  {python, []kernel.Frame{call, native, function, native, call}, []kernel.Frame{call, function, call}},
		"none":     {python, []kernel.Frame{native, call}, []kernel.Frame{native, call}},
		"unknown":  {0, []kernel.Frame{native, function}, []kernel.Frame{native, function}},
		"compiled": {python, []kernel.Frame{{Exe: 4, Code: 9}, native}, []kernel.Frame{{Exe: 4, Code: 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.folded, foldRuntime(nil, test.in, test.file))
		})
	}
}

// TestInterpretedUnknown checks that an unknown version is detected.
func TestInterpretedUnknown(t *testing.T) {
	x := buildToy(t)
	x.unnamed = &language.UnnamedError{Frame: "[toy 9.9 code]", Hint: "toy 9.9 is not known"}
	p := profileToy(t, x, toyOptions, func(c *counted) { x.run(t, c) })
	found := slices.ContainsFunc(p.Sample, func(s *profile.Sample) bool {
		return slices.Contains(functionsOf(s), "[toy 9.9 code]")
	})
	if !found {
		t.Error("no frame stands for the code of an unknown version")
	}
}

// checkFunction checks the description of a function.
func checkFunction(t *testing.T, p *profile.Profile) {
	t.Helper()
	for _, l := range p.Location {
		if len(l.Line) != 1 || l.Line[0].Function.Name != "outer_2" {
			continue
		}
		f := l.Line[0].Function
		if f.Filename != "toy.script" || f.StartLine != 102 || l.Line[0].Line != 105 || l.Mapping.File != "[toy 1.0]" {
			t.Errorf("outer_2 is in %s, from line %d on, at line %d, of %s; want toy.script, 102, 105, [toy 1.0]",
				f.Filename, f.StartLine, l.Line[0].Line, l.Mapping.File)
		}
		return
	}
	t.Error("no location in outer_2")
}
