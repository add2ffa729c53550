package ebpf

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
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

	"github.com/headwater/headwater/ebpf/language/jvm"
	"github.com/headwater/headwater/integration/testkit"
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
	source := filepath.Join("testdata", "java", name+".java")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	key := []string{outputOf(t, "javac", "-version"), string(text)}
	return testkit.Fixture(t, "ebpf-java-"+name, key, func(dir string) error {
		if out, err := exec.Command("javac", "-d", dir, source).CombinedOutput(); err != nil {
			return fmt.Errorf("javac: %w\n%s", err, out)
		}
		return nil
	})
}

// javaOptions returns options of sessions that look at Java VMs; other Java VMs may run on this host.
func javaOptions() Options {
	o := Options{}
	o.Comm, o.SampleRate, o.NoKernelStacks, o.Labels = CommNone, 499, true, []string{"pid"}
	return o
}

// javaProgram is a Java VM that runs until the test ends.
type javaProgram struct {
	pid     uint32
	session *Session
}

// launchJava starts a program. The function that it returns waits for a line that the program prints when it is at
// work.
func launchJava(t testing.TB, args ...string) (pid uint32, atWork func()) {
	t.Helper()
	cmd := exec.Command("java", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Run(t, cmd), func() {
		t.Helper()
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("java %v: %q, %v", args, line, err)
		}
	}
}

// startJava starts a program and then, when it is at work, a session that looks only at it.
func startJava(t testing.TB, args ...string) *javaProgram {
	t.Helper()
	pid, atWork := launchJava(t, args...)
	atWork()
	s := start(t, only(javaOptions(), pid))
	t.Cleanup(func() { s.Close() })
	return &javaProgram{pid, s}
}

// samples returns the samples of the program.
func (j *javaProgram) samples(p Profile) []*profile.Sample { return ofPID(p, j.pid) }

// locations returns the distinct locations of the program's samples.
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

// isJava reports whether a location is in code that the VM has generated, or a method that its interpreter runs.
func isJava(l *profile.Location) bool {
	return l.Mapping != nil && (l.Mapping.File == "[jit]" || strings.HasPrefix(l.Mapping.File, "[java "))
}

// jitted returns the frames of a stack that are in generated code, or interpreted, root first.
func jitted(sample *profile.Sample) (frames []string) {
	for _, l := range slices.Backward(sample.Location) {
		if isJava(l) {
			frames = append(frames, l.Line[len(l.Line)-1].Function.Name) // the method whose code it is
		}
	}
	return frames
}

// deepChain returns the calls in Deep.java, root first.
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

// javaMode is how methods are run.
type javaMode struct {
	name, flag string
	before     bool // the VM runs before the session starts
	compiled   bool // methods are compiled
}

// TestJavaStacks profiles a Java program whose methods call each other as in its source, by both compilers, by the
// interpreter, and by all in turn.
func TestJavaStacks(t *testing.T) {
	t.Parallel()
	classes := compileJava(t, "Deep")
	modes := []javaMode{
		{"compiled when hot", "-XX:+TieredCompilation", false, true},
		{"interpreted", "-Xint", true, false},
	}
	if testkit.IsNightly() {
		modes = append(modes,
			javaMode{"compiled by C1", "-XX:TieredStopAtLevel=1", true, true},
			javaMode{"compiled by C2", "-XX:-TieredCompilation", true, true},
			javaMode{"compiled at once", "-Xcomp", true, true})
	}
	args := func(m javaMode) []string {
		return []string{m.flag, "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Deep.*", "-cp", classes, "Deep"}
	}
	programs, pids := make([]javaProgram, len(modes)), make([]uint32, len(modes))
	var waits []func()
	for i, m := range modes {
		if m.before {
			var wait func()
			pids[i], wait = launchJava(t, args(m)...)
			waits = append(waits, wait)
		}
	}
	for _, wait := range waits {
		wait()
	}
	s := start(t, javaOptions())
	defer s.Close()
	for i, m := range modes {
		if !m.before {
			pids[i], _ = launchJava(t, args(m)...)
		}
		programs[i] = javaProgram{pids[i], s}
	}
	first := collectDeep(t, programs)
	settle(t, s, pids...)
	settled := collectOf(t, s, wantedSamples, pids...)
	unnamed := collectUnnamed(t, s, pids)
	maps := collectPerfMaps(t, s, modes, pids)
	for i, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			java := &programs[i]
			java.checkDeep(t, first)
			// At its start the VM makes mappings, which become known a moment later. How long rows are missing then
			// depends on the load of the machine.
			e := endsOf(first, java.pid, "no_mapping")
			e.check(t, "from the first sample on", 0.01)
			e = endsOf(settled, java.pid)
			if e.check(t, "later", 0.01); e.unready*100 > e.whole {
				t.Errorf("rows are missing later: %v", &e)
			}
			java.checkUnnamed(t, unnamed)
			if m.compiled {
				java.comparePerfMap(t, maps)
			}
		})
	}
}

const wantedSamples = 300

// collectDeep collects until programs have enough samples in the methods of Deep.
func collectDeep(t testing.TB, programs []javaProgram) []Profile {
	t.Helper()
	deep := make([]int64, len(programs))
	return collectUntil(t, programs[0].session, "all Java VMs have samples in Deep.main", func(more []Profile) bool {
		enough := true
		for i := range programs {
			for _, p := range more {
				for _, sample := range programs[i].samples(p) {
					if inDeep(jitted(sample)) {
						deep[i] += sample.Value[0] / p.Pprof.Period
					}
				}
			}
			enough = enough && deep[i] >= wantedSamples
		}
		return enough
	})
}

// inDeep reports whether frames are in the methods of Deep, not of what the VM runs before its main.
func inDeep(frames []string) bool {
	return slices.Contains(frames, "Deep.main") || slices.Contains(frames, "Deep.one")
}

// checkDeep compares the stacks with the source.
func (j *javaProgram) checkDeep(t *testing.T, profiles []Profile) {
	t.Helper()
	chain := deepChain()
	var all, wrong, whole, named int64
	var example []string
	for _, p := range profiles {
		for _, sample := range j.samples(p) {
			frames := jitted(sample)
			if !inDeep(frames) || endsUnready(frameNames(sample)) {
				continue
			}
			n := sample.Value[0] / p.Pprof.Period
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
	t.Logf("%d stacks in Deep, %d to where it works, %d with names, %d not as the source says", all, whole, named, wrong)
	if wrong*100 > all {
		t.Errorf("%d of %d stacks are not as the source says; one is\n%s", wrong, all, strings.Join(example, "\n"))
	}
	if whole*2 < all || all < wantedSamples/3 {
		t.Errorf("%d of %d stacks lead to where the program works", whole, all)
	}
	if named*2 < all {
		t.Errorf("%d of %d stacks have names of methods", named, all)
	}
}

// TestJavaDigests: stacks lead from the VM's own code of a digest, which may align its stack and use rbp otherwise, to
// the method that calls it.
func TestJavaDigests(t *testing.T) {
	t.Parallel()
	classes := compileJava(t, "Hash")
	digests := []string{"MD5", "SHA-1", "SHA-256", "SHA-512"}
	// A quarter of the samples and more is of each: if the stacks of one do not lead to the program, all fail.
	t.Run("all", func(t *testing.T) { checkDigests(t, classes, digests) })
	for _, digest := range digests {
		t.Run(digest, func(t *testing.T) {
			testkit.Nightly(t, "the part \"all\" has one VM make the digests of all kinds in turn")
			checkDigests(t, classes, []string{digest})
		})
	}
}

func checkDigests(t *testing.T, classes string, digests []string) {
	t.Helper()
	java := startJava(t, append([]string{"-cp", classes, "Hash"}, digests...)...)
	settle(t, java.session, java.pid)
	profiles := collectOf(t, java.session, uint64(wantedSamples*len(digests)), java.pid)
	var all, led, unnamed int64
	for _, p := range profiles {
		for _, sample := range java.samples(p) {
			frames := jitted(sample)
			if len(frames) == 0 || !strings.HasPrefix(frames[len(frames)-1], "StubRoutines (") {
				continue
			}
			n := sample.Value[0] / p.Pprof.Period
			switch {
			case slices.Contains(frames, "Hash.main"):
				led += n
			case slices.Contains(frames, "Interpreter"): // which runs it, and it was gone when its name was read
				unnamed += n
				continue
			default:
				t.Logf("%d %s", n, strings.Join(frameNames(sample), " "))
			}
			all += n
		}
	}
	t.Logf("%d of %d stacks from the VM's own code lead to the program, %d more have no name of it", led, all, unnamed)
	if led*100 < all*98 || all == 0 || unnamed*10 > all {
		t.Errorf("%d of %d stacks from the VM's own code lead to the program, %d more have no name of it", led, all, unnamed)
	}
	e := endsOf(profiles, java.pid)
	e.check(t, strings.Join(digests, ", "), 0.02)
}

// TestFirstInterpretedMethods: in programs that have just started, rows are missing at the kernel's first walks.
// Interpreted methods also have names there, unless the machine is so busy that different methods may run by then: so
// one good run is enough.
func TestFirstInterpretedMethods(t *testing.T) {
	classes := t.TempDir()
	need.Root(t)
	need.Tools(t, "javac")
	o := Options{}
	o.Comm, o.SampleRate, o.NoKernelStacks = CommNone, 249, true
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

// collectUnnamed collects with an option that leaves methods without names.
func collectUnnamed(t testing.TB, s *Session, pids []uint32) []Profile {
	t.Helper()
	o := javaOptions()
	o.LanguagesOff = map[string]bool{jvm.Name: true}
	if err := s.Update(o); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(); err != nil { // samples from before
		t.Fatal(err)
	}
	profiles := collectOf(t, s, wantedSamples/3, pids...)
	if err := s.Update(javaOptions()); err != nil {
		t.Fatal(err)
	}
	return profiles
}

// checkUnnamed: stacks of methods without names are equally whole.
func (j *javaProgram) checkUnnamed(t *testing.T, profiles []Profile) {
	t.Helper()
	for _, p := range profiles {
		for _, l := range j.locations(p) {
			for _, line := range l.Line {
				if strings.HasPrefix(line.Function.Name, "Deep.") {
					t.Errorf("%s has a name", line.Function.Name)
				}
			}
		}
	}
	e := endsOf(profiles, j.pid)
	e.check(t, "without names", 0.01)
}

// perfMaps are the VMs' own maps of their code for perf, before and after samples.
type perfMaps struct {
	before, after map[uint32][]compiledCode
	profiles      []Profile
}

// collectPerfMaps gets the VMs' maps of compiled methods, before and after samples, until both have the same code of
// Deep.
func collectPerfMaps(t testing.TB, s *Session, modes []javaMode, pids []uint32) (m perfMaps) {
	t.Helper()
	say := func() map[uint32][]compiledCode {
		codes := map[uint32][]compiledCode{}
		for i, pid := range pids {
			if modes[i].compiled {
				codes[pid] = perfMap(t, pid)
			}
		}
		return codes
	}
	m.before = say()
	testkit.Eventually(t, "the VMs have compiled the methods of Deep", func() bool {
		if m.after != nil {
			m.before = m.after
		}
		m.profiles = collectOf(t, s, wantedSamples, pids...)
		m.after = say()
		return maps.EqualFunc(m.before, m.after, func(a, b []compiledCode) bool {
			return slices.Equal(codeOfDeep(a), codeOfDeep(b))
		})
	})
	return m
}

// codeOfDeep returns the code of Deep's methods.
func codeOfDeep(codes []compiledCode) []compiledCode {
	return slices.DeleteFunc(slices.Clone(codes), func(c compiledCode) bool { return !strings.Contains(c.name, "Deep.") })
}

// comparePerfMap compares names of methods with the names in the VM's map for perf. Only code that the VM has before
// and after the samples is judged: methods are compiled again all the time, and other code takes their place.
func (j *javaProgram) comparePerfMap(t *testing.T, m perfMaps) {
	t.Helper()
	same, others, unjudged := 0, 0, 0
	addresses := map[uint64]bool{}
	var example string
	for _, p := range m.profiles {
		for _, l := range j.locations(p) {
			name := l.Line[len(l.Line)-1].Function.Name
			if l.Mapping == nil || l.Mapping.File != "[jit]" || !strings.HasPrefix(name, "Deep.") {
				continue
			}
			switch code := codeAt(m.before[j.pid], l.Address); {
			case code.end == 0 || code != codeAt(m.after[j.pid], l.Address):
				unjudged++
			case strings.Contains(code.name, name+"("):
				same++
				addresses[l.Address] = true
			default:
				others++
				example = fmt.Sprintf("%#x is %s, the VM says %s", l.Address, name, code.name)
			}
		}
	}
	t.Logf("the VM names %d addresses as we do, %d others not; %d are in code that has changed",
		len(addresses), others, unjudged)
	if len(addresses) < 4 || others*100 > same || unjudged > same {
		t.Errorf("the VM names %d addresses as we do, %d others not, and %d are in code that has changed: %s",
			len(addresses), others, unjudged, example)
	}
}

// compiledCode is an entry of a VM's map: its code at [start, end).
type compiledCode struct {
	start, end uint64
	name       string
}

// perfMap has the VM write its map for perf and returns it, sorted.
func perfMap(t testing.TB, pid uint32) (codes []compiledCode) {
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

// TestJavaChurn profiles a program whose code is dropped and generated again in the same place.
func TestJavaChurn(t *testing.T) {
	testkit.Nightly(t, "how many stacks code spoils that is gone when it is read depends on how busy the machine is. "+
		"TestJavaStacks checks code that is compiled when it is hot")
	classes := compileJava(t, "Churn")
	retry.Run(t, func(t *retry.T) { tryJavaChurn(t, classes) })
}

func tryJavaChurn(t *retry.T, classes string) {
	s := start(t, javaOptions())
	defer s.Close()
	pid, _ := launchJava(t, "-Xmx64m", "-XX:ReservedCodeCacheSize=8m", "-XX:CompileCommand=quiet",
		"-XX:CompileCommand=dontinline,Work*.*", "-cp", classes, "Churn", classes+"/")
	java := &javaProgram{pid, s}
	profiles := collect(t, s, pid, 3*wantedSamples)
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

// isChurn reports whether the frames, root first, are of a call of Work.step at a position: by itself, Work.run or the
// interpreter, and then only Work and leaves.
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
