package ebpf

import (
	"bufio"
	"cmp"
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

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// compileJava compiles a program of testdata/java and returns where the classes are.
func compileJava(t testing.TB, name string) (dir string) {
	t.Helper()
	need.Root(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("code of Java VMs is known on x86-64 only")
	}
	need.Tools(t, "java", "javac", "jcmd")
	dir = t.TempDir()
	source := filepath.Join("testdata", "java", name+".java")
	if out, err := exec.Command("javac", "-d", dir, source).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return dir
}

// javaProgram is a Java VM that runs.
type javaProgram struct {
	pid     uint32
	stop    func()
	session *Session
	options Options // of the session
}

// startJava starts a program and a session, in this order if the VM is to run before:
// it then prints a line.
func startJava(t testing.TB, before bool, args ...string) *javaProgram {
	t.Helper()
	p := &javaProgram{}
	o := DefaultOptions()
	o.Comm, o.SampleRate, o.KernelStacks = CommNone, 197, false
	o.PIDLabel = true // other Java VMs may run on this host
	p.options = o
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

// samples are those of the program.
func (j *javaProgram) samples(p Profile) (own []*profile.Sample) {
	for _, s := range p.Pprof.Sample {
		if slices.Equal(s.Label["pid"], []string{itoa(j.pid)}) {
			own = append(own, s)
		}
	}
	return own
}

// locations are the distinct ones of the program's samples.
func (j *javaProgram) locations(p Profile) (own []*profile.Location) {
	seen := map[*profile.Location]bool{}
	for _, s := range j.samples(p) {
		for _, l := range s.Location {
			if !seen[l] {
				seen[l] = true
				own = append(own, l)
			}
		}
	}
	return own
}

// isJava reports whether a location is in code that the VM has made, or a method that its interpreter runs.
func isJava(l *profile.Location) bool {
	return l.Mapping != nil && (l.Mapping.File == "[jit]" || strings.HasPrefix(l.Mapping.File, "[java "))
}

// jitted are the frames of a stack that are in code made while the program runs, or interpreted, root first.
func jitted(sample *profile.Sample) (frames []string) {
	for _, l := range slices.Backward(sample.Location) {
		if isJava(l) {
			frames = append(frames, l.Line[len(l.Line)-1].Function.Name) // that the code lies in
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

// fits reports whether the frames are the first ones of a chain. Where an interpreted method
// has no name, the interpreter has its frame; and a leaf may be a stub on the way.
func fits(frames, chain []string) bool {
	for i, f := range frames {
		switch {
		case i == 0 && strings.HasPrefix(f, "StubRoutines"):
			return fits(frames[1:], chain)
		case i < len(chain) && (f == chain[i] || f == "Interpreter"):
		case i == len(frames)-1 && !strings.HasPrefix(f, "Deep.") && f != "[unknown]":
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
		compiled   bool // methods are
	}{
		{"compiled when hot", "-XX:+TieredCompilation", false, true},
		{"compiled by C1", "-XX:TieredStopAtLevel=1", true, true},
		{"compiled by C2", "-XX:-TieredCompilation", true, true},
		{"compiled at once", "-Xcomp", true, true},
		{"interpreted", "-Xint", true, false},
	} {
		t.Run(mode.name, func(t *testing.T) {
			retry.Run(t, func(t *retry.T) { tryJavaStacks(t, classes, mode.flag, mode.before, mode.compiled) })
		})
	}
}

const wantedSamples = 300

func tryJavaStacks(t *retry.T, classes, flag string, before, compiled bool) {
	java := startJava(t, before, flag, "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep.*",
		"-cp", classes, "Deep")
	defer java.stop()
	chain := deepChain()
	var all, wrong, whole, named uint64
	var example []string
	profiles := collect(t, java.session, java.pid, wantedSamples)
	for _, p := range profiles {
		for _, sample := range java.samples(p) {
			frames := jitted(sample)
			if !slices.ContainsFunc(frames, func(f string) bool { return f == "Interpreter" || strings.HasPrefix(f, "Deep.") }) {
				continue // a thread of the VM's own, or before main
			}
			if deep := slices.Index(frames, "Deep.main"); deep < 0 && !slices.Contains(frames, "Deep.one") {
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
	if named*2 < all {
		t.Errorf("%d of %d stacks have names of methods", named, all)
	}
	if samples, complete := of(profiles, java.pid); complete*100 < samples*99 {
		t.Errorf("%d of %d stacks are whole", complete, samples)
	}
	checkUnnamed(t, java)
	if compiled {
		comparePerfMap(t, java)
	}
}

// TestJavaDigests: stacks lead from the VM's own code of a digest, which may align its stack and use rbp for other
// things, to the method that wants it.
func TestJavaDigests(t *testing.T) {
	classes := compileJava(t, "Hash")
	for _, digest := range []string{"MD5", "SHA-1", "SHA-256", "SHA-512"} {
		t.Run(digest, func(t *testing.T) {
			java := startJava(t, true, "-cp", classes, "Hash", digest)
			defer java.stop()
			profiles := collect(t, java.session, java.pid, wantedSamples)
			var all, led int64
			for _, p := range profiles {
				for _, sample := range java.samples(p) {
					frames := jitted(sample)
					if len(frames) > 0 && strings.HasPrefix(frames[len(frames)-1], "StubRoutines (") {
						all += sample.Value[0] / p.Pprof.Period
						if slices.Contains(frames, "Hash.main") {
							led += sample.Value[0] / p.Pprof.Period
						}
					}
				}
			}
			t.Logf("%d of %d stacks from the VM's own code lead to the program", led, all)
			if led*100 < all*98 {
				t.Error("too few")
			}
			if samples, complete := of(profiles, java.pid); complete*100 < samples*98 {
				t.Errorf("%d of %d stacks are whole", complete, samples)
			}
		})
	}
}

// TestFirstInterpretedMethods: in programs that have just begun, rows are missing where the kernel's walk comes first.
// Interpreted methods have names there, too, unless the machine is so busy that they could be others by then: that is
// why one good run is enough.
func TestFirstInterpretedMethods(t *testing.T) {
	classes := t.TempDir()
	need.Root(t)
	need.Tools(t, "javac")
	o := DefaultOptions()
	o.Comm, o.SampleRate, o.KernelStacks = CommNone, 249, false
	session, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 10 {
		if out, err := exec.Command("javac", "-d", classes, "testdata/java/Deep.java").CombinedOutput(); err != nil {
			t.Fatalf("javac: %v\n%s", err, out)
		}
		profiles, err := session.Collect()
		if err != nil {
			t.Fatal(err)
		}
		var named, unnamed int64
		for _, p := range profiles {
			with, without := interpretedFrames(p)
			named, unnamed = named+with, unnamed+without
		}
		t.Logf("%d frames of interpreted methods have a name, %d have none", named, unnamed)
		if named >= wantedSamples && unnamed*9 <= named {
			return
		}
	}
	t.Error("in no run nine of ten frames of interpreted methods have a name")
}

// interpretedFrames counts the frames of interpreted methods in the samples of a profile, with a name and without.
func interpretedFrames(p Profile) (named, unnamed int64) {
	for _, s := range p.Pprof.Sample {
		samples := s.Value[0] / p.Pprof.Period
		for _, l := range s.Location {
			switch {
			case l.Mapping != nil && strings.HasPrefix(l.Mapping.File, "[java "):
				named += samples
			case isJava(l) && l.Line[0].Function.Name == "Interpreter":
				unnamed += samples
			}
		}
	}
	return named, unnamed
}

// checkUnnamed: where methods are not to be named, stacks are as whole.
func checkUnnamed(t *retry.T, java *javaProgram) {
	t.Helper()
	o := java.options
	o.Hotspot = false
	if err := java.session.Update(o); err != nil {
		t.Fatal(err)
	}
	java.session.Collect() // what was sampled before
	profiles := collect(t, java.session, java.pid, wantedSamples/3)
	for _, p := range profiles {
		for _, l := range java.locations(p) {
			for _, line := range l.Line {
				if strings.HasPrefix(line.Function.Name, "Deep.") {
					t.Errorf("%s has a name", line.Function.Name)
				}
			}
		}
	}
	if samples, complete := of(profiles, java.pid); complete*100 < samples*99 {
		t.Errorf("%d of %d stacks are whole", complete, samples)
	}
	if err := java.session.Update(java.options); err != nil {
		t.Fatal(err)
	}
}

// comparePerfMap compares names of methods with those that the VM itself gives to perf.
// Only code that the VM has before and after the samples is judged: methods are
// compiled again all the time, and other code comes to where they were.
func comparePerfMap(t *retry.T, java *javaProgram) {
	before := perfMap(t, java.pid)
	profiles := collect(t, java.session, java.pid, wantedSamples)
	after := perfMap(t, java.pid)
	same, others, unjudged := 0, 0, 0
	var example string
	for _, p := range profiles {
		for _, l := range java.locations(p) {
			name := l.Line[len(l.Line)-1].Function.Name
			if l.Mapping == nil || l.Mapping.File != "[jit]" || !strings.HasPrefix(name, "Deep.") {
				continue
			}
			switch code := codeAt(before, l.Address); {
			case code.end == 0 || code != codeAt(after, l.Address):
				unjudged++
			case strings.Contains(code.name, name+"("):
				same++
			default:
				others++
				example = fmt.Sprintf("%#x is %s, the VM says %s", l.Address, name, code.name)
			}
		}
	}
	t.Logf("the VM names %d addresses as we do, %d others not; %d are in code that has changed", same, others, unjudged)
	if same < 4 || others*100 > same || unjudged > same {
		t.Errorf("the VM names %d addresses as we do, %d others not, and %d are in code that has changed: %s",
			same, others, unjudged, example)
	}
}

// compiledCode is what a VM says of its code at [start, end).
type compiledCode struct {
	start, end uint64
	name       string
}

// perfMap has the VM write its map for perf and returns it, sorted.
func perfMap(t *retry.T, pid uint32) (codes []compiledCode) {
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	defer os.Remove(path)
	if out, err := exec.Command("jcmd", itoa(pid), "Compiler.perfmap").CombinedOutput(); err != nil {
		t.Fatalf("jcmd: %v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(fields) < 3 {
			continue
		}
		start, err1 := strconv.ParseUint(strings.TrimPrefix(fields[0], "0x"), 16, 64)
		size, err2 := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64)
		if err1 == nil && err2 == nil {
			codes = append(codes, compiledCode{start, start + size, fields[2]})
		}
	}
	slices.SortFunc(codes, func(a, b compiledCode) int { return cmp.Compare(a.start, b.start) })
	return codes
}

// codeAt returns the code at an address, zero if there is none.
func codeAt(codes []compiledCode, addr uint64) compiledCode {
	i := sort.Search(len(codes), func(i int) bool { return codes[i].end > addr })
	if i < len(codes) && codes[i].start <= addr {
		return codes[i]
	}
	return compiledCode{}
}

// TestJavaChurn profiles a program whose code is thrown away and made again in its place.
func TestJavaChurn(t *testing.T) {
	classes := compileJava(t, "Churn")
	retry.Run(t, func(t *retry.T) { tryJavaChurn(t, classes) })
}

func tryJavaChurn(t *retry.T, classes string) {
	java := startJava(t, false, "-Xmx64m", "-XX:ReservedCodeCacheSize=8m", "-XX:CompileCommand=quiet",
		"-XX:CompileCommand=dontinline,Work*.*", "-cp", classes, "Churn", classes+"/")
	defer java.stop()
	profiles := collect(t, java.session, java.pid, 3*wantedSamples)
	var all, wrong, unnamed uint64
	var example []string
	for _, p := range profiles {
		for _, sample := range java.samples(p) {
			frames := jitted(sample)
			n := uint64(sample.Value[0] / p.Pprof.Period)
			if slices.Contains(frames, "[unknown]") {
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

// isChurn reports whether the frames, root first, are of a call of Work.step at a position:
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
