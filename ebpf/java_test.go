package ebpf

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/trial"
)

// compileJava compiles a program of testdata/java and returns where the classes are.
func compileJava(t testing.TB, name string) (dir string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("code of Java VMs is known on x86-64 only")
	}
	for _, program := range []string{"java", "javac", "jcmd"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("REQUIRE_KERNEL") == "1" {
			t.Fatalf("REQUIRE_KERNEL=1 but %s is not installed", program)
		}
		t.Skipf("%s is not installed: run integration/packages test", program)
	}
	dir = t.TempDir()
	if out, err := exec.Command("javac", "-d", dir, filepath.Join("testdata", "java", name+".java")).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return dir
}

// javaProgram is a Java VM that runs.
type javaProgram struct {
	pid     uint32
	stop    func()
	session *Session
}

// startJava starts a program and a session, in this order if the VM is to run before:
// it then prints a line.
func startJava(t testing.TB, before bool, args ...string) *javaProgram {
	t.Helper()
	p := &javaProgram{}
	o := DefaultOptions()
	o.Comm, o.SampleRate, o.KernelStacks = CommNone, 197, false
	if !before {
		p.session = start(t, o)
	}
	cmd := exec.Command("java", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = uint32(cmd.Process.Pid)
	if before { // the VM is to be past its beginning
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			cmd.Process.Kill()
			t.Fatalf("java: %q, %v, %v", line, err, cmd.Wait())
		}
		p.session = start(t, o)
	}
	p.stop = func() {
		p.session.Close()
		cmd.Process.Kill()
		cmd.Wait()
	}
	return p
}

// jitted are the frames of a stack that are in code made while the program runs, root first.
func jitted(sample *profile.Sample) (frames []string) {
	for _, l := range slices.Backward(sample.Location) {
		if l.Mapping != nil && l.Mapping.File == jitFile {
			frames = append(frames, l.Line[0].Function.Name)
		}
	}
	return frames
}

// deepChain is what calls what in Deep.java, root first.
func deepChain() []string {
	chain := []string{"Deep.main", "Deep.one"}
	for range 30 {
		chain = append(chain, "Deep.two", "Deep.three", "Deep.one")
	}
	return append(chain, "Deep.work")
}

// fits tells whether the frames are the first ones of a chain. Where a method is
// interpreted, the interpreter has its frame; and a leaf may be a stub on the way.
func fits(frames, chain []string) bool {
	for i, f := range frames {
		switch {
		case i == 0 && strings.HasPrefix(f, "StubRoutines"):
			return fits(frames[1:], chain)
		case i < len(chain) && (f == chain[i] || f == "Interpreter"):
		case i == len(frames)-1 && !strings.HasPrefix(f, "Deep.") && f != unknownFunction:
		default:
			return false
		}
	}
	return true
}

// TestJavaStacks profiles a Java program whose methods call each other as its source
// says, by both compilers, by the interpreter, and all of them in turn.
func TestJavaStacks(t *testing.T) {
	classes := compileJava(t, "Deep")
	for _, mode := range []struct {
		name, flag string
		before     bool // the VM runs before the session begins
		names      bool // methods are compiled
	}{
		{"compiled when hot", "-XX:+TieredCompilation", false, true},
		{"compiled by C1", "-XX:TieredStopAtLevel=1", true, true},
		{"compiled by C2", "-XX:-TieredCompilation", true, true},
		{"compiled at once", "-Xcomp", true, true},
		{"interpreted", "-Xint", true, false},
	} {
		t.Run(mode.name, func(t *testing.T) {
			trial.Run(t, func(t *trial.T) { tryJavaStacks(t, classes, mode.flag, mode.before, mode.names) })
		})
	}
}

const wantedSamples = 300

func tryJavaStacks(t *trial.T, classes, flag string, before, names bool) {
	java := startJava(t, before, flag, "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep.*", "-cp", classes, "Deep")
	defer java.stop()
	chain := deepChain()
	var all, wrong, whole, named uint64
	var example []string
	profiles := collect(t, java.session, java.pid, wantedSamples)
	for _, p := range profiles {
		for _, sample := range p.Pprof.Sample {
			frames := jitted(sample)
			if !slices.ContainsFunc(frames, func(f string) bool { return f == "Interpreter" || strings.HasPrefix(f, "Deep.") }) {
				continue // a thread of the VM's own, or before main
			}
			if deep := slices.Index(frames, "Deep.main"); names && deep < 0 && !slices.Contains(frames, "Deep.one") {
				continue // what the VM runs before main
			}
			n := uint64(sample.Value[0] / p.Pprof.Period)
			all += n
			if !fits(frames, chain) {
				wrong, example = wrong+n, frames
			}
			if len(frames) > len(chain)-20 {
				whole += n
			}
			if slices.Contains(frames, "Deep.one") {
				named += n
			}
		}
	}
	if wrong*100 > all {
		t.Errorf("%d of %d stacks are not as the source says; one is\n%s", wrong, all, strings.Join(example, "\n"))
	}
	if whole*2 < all || all < wantedSamples/3 {
		t.Errorf("%d of %d stacks lead to where the program works", whole, all)
	}
	if names && named*2 < all {
		t.Errorf("%d of %d stacks have names of methods", named, all)
	}
	if samples, complete := of(profiles, java.pid); complete*100 < samples*99 {
		t.Errorf("%d of %d stacks are whole", complete, samples)
	}
	if names {
		comparePerfMap(t, java.pid, profiles)
	}
}

// comparePerfMap compares names of methods with those that the VM itself tells perf.
func comparePerfMap(t *trial.T, pid uint32, profiles []Profile) {
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	defer os.Remove(path)
	if out, err := exec.Command("jcmd", itoa(pid), "Compiler.perfmap").CombinedOutput(); err != nil {
		t.Fatalf("jcmd: %v\n%s", err, out)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	type code struct {
		start, end uint64
		name       string
	}
	var codes []code
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		fields := strings.SplitN(scanner.Text(), " ", 3)
		if len(fields) < 3 {
			continue
		}
		start, err1 := strconv.ParseUint(strings.TrimPrefix(fields[0], "0x"), 16, 64)
		size, err2 := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64)
		if err1 == nil && err2 == nil {
			codes = append(codes, code{start, start + size, fields[2]})
		}
	}
	slices.SortFunc(codes, func(a, b code) int { return int(int64(a.start) - int64(b.start)) })
	same, others := 0, 0
	for _, p := range profiles {
		for _, l := range p.Pprof.Location {
			name := l.Line[0].Function.Name
			if l.Mapping == nil || l.Mapping.File != jitFile || !strings.HasPrefix(name, "Deep.") {
				continue
			}
			i := sort.Search(len(codes), func(i int) bool { return codes[i].end > l.Address })
			if i < len(codes) && codes[i].start <= l.Address && strings.Contains(codes[i].name, name+"(") {
				same++
			} else {
				others++ // compiled anew since, or wrong
			}
		}
	}
	if same == 0 || others > 3*same {
		t.Errorf("the VM names %d addresses as we do, and %d others not", same, others)
	}
}

// TestJavaChurn profiles a program whose code is thrown away and made anew in its place.
func TestJavaChurn(t *testing.T) {
	classes := compileJava(t, "Churn")
	trial.Run(t, func(t *trial.T) { tryJavaChurn(t, classes) })
}

func tryJavaChurn(t *trial.T, classes string) {
	java := startJava(t, false, "-Xmx64m", "-XX:ReservedCodeCacheSize=8m", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Work*.*", "-cp", classes, "Churn", classes+"/")
	defer java.stop()
	profiles := collect(t, java.session, java.pid, 3*wantedSamples)
	var all, wrong, unnamed uint64
	var example []string
	for _, p := range profiles {
		for _, sample := range p.Pprof.Sample {
			frames := jitted(sample)
			n := uint64(sample.Value[0] / p.Pprof.Period)
			if slices.Contains(frames, unknownFunction) {
				unnamed += n
			}
			at := slices.Index(frames, "Work.step")
			if at < 0 {
				continue
			}
			all += n
			if !isChurn(frames, at) {
				wrong, example = wrong+n, frames
			}
		}
	}
	samples, complete := of(profiles, java.pid)
	if complete*100 < samples*97 || unnamed*20 > samples {
		t.Errorf("of %d stacks %d are whole, and %d lack names", samples, complete, unnamed)
	}
	if wrong*20 > all || all < wantedSamples/10 {
		t.Errorf("%d of %d stacks are not as the source says; one is\n%s", wrong, all, strings.Join(example, "\n"))
	}
	stats := java.session.Stats()
	t.Logf("%d samples, %d in methods, %d pages given up, %d resident", samples, all, stats.PagesEvicted, stats.Pages)
}

// isChurn tells whether the frames, root first, are of a call of Work.step at a position:
// by itself, Work.run or the interpreter, and then nothing else but Work and leaves.
func isChurn(frames []string, at int) bool {
	interpreted := func(f string) bool { return f == "Interpreter" }
	if at > 0 && frames[at-1] != "Work.run" && !interpreted(frames[at-1]) {
		return false
	}
	steps := 0
	for _, f := range frames[at:] {
		if f == "Work.step" || interpreted(f) {
			steps++
		}
	}
	return steps <= 13 && len(frames)-at-steps <= 4
}
