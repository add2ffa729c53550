package ebpf

import (
	"bufio"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// javaFrames are the frames of a stack in Java, each as "Class.method File:line", leaf first.
func javaFrames(sample *profile.Sample) (frames []string) {
	for _, l := range sample.Location {
		if l.Mapping == nil || l.Mapping.File != "[jit]" {
			continue
		}
		for _, line := range l.Line {
			frames = append(frames, fmt.Sprintf("%s %s:%d", line.Function.Name, line.Function.Filename, line.Line))
		}
	}
	return frames
}

// sitesOf runs the program Inline until it has printed where it works: four stacks, leaf first, that start in
// Inline.work and end in Inline.call.
func sitesOf(t *testing.T, classes string) (sites [][]string) {
	t.Helper()
	cmd := exec.Command("java", "-cp", classes, "Inline")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	inside := false
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "at work"; {
		function, _, _ := strings.Cut(lines.Text(), " ")
		if function == "Inline.work" {
			sites, inside = append(sites, nil), true
		}
		if inside {
			sites[len(sites)-1] = append(sites[len(sites)-1], lines.Text())
		}
		inside = inside && function != "Inline.call"
	}
	if len(sites) != 4 || len(sites[3]) != 5 {
		t.Fatalf("the program works at %q", sites)
	}
	return sites
}

// siteOf returns the number of the site where a stack is, leaf first: in the work, or in the loop around it.
func siteOf(frames []string, sites [][]string) int {
	for i, site := range sites {
		for _, from := range []int{0, 1} {
			n := len(site) - from
			if len(frames) >= n && slices.Equal(frames[1:n], site[from+1:]) && sameLeaf(frames[0], site[from]) {
				return i
			}
		}
	}
	return -1
}

// sameLeaf reports whether two frames are equal, except that ours may have no line where the VM knows none.
func sameLeaf(ours, theirs string) bool {
	unknown, ok := strings.CutSuffix(ours, ":0")
	return ours == theirs || ok && strings.HasPrefix(theirs, unknown+":")
}

// TestJavaInlined: a frame of compiled code has the methods that were inlined there, with the lines of a Throwable, and
// each method's share of the work is the same as without inlining.
func TestJavaInlined(t *testing.T) {
	t.Parallel()
	classes := compileJava(t, "Inline")
	sites := sitesOf(t, classes)
	starts := startsOf(t, classes)
	t.Run("C2", func(t *testing.T) { checkJavaInlined(t, classes, "-XX:-TieredCompilation", sites, starts) })
	t.Run("C1", func(t *testing.T) {
		testkit.Nightly(t, "the part \"C2\" checks the compiler that inlines more")
		checkJavaInlined(t, classes, "-XX:TieredStopAtLevel=1", sites, starts)
	})
}

// inlineSamples is the number of samples of each VM. A share is five deviations off, which is 0.11, in fewer than one
// of a million runs.
const inlineSamples = 1000

// checkJavaInlined profiles two VMs at once, one with inlining and one without.
func checkJavaInlined(t *testing.T, classes, flag string, sites [][]string, starts map[string]int64) {
	t.Helper()
	flags := []string{flag, "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Inline.call",
		"-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints", "-cp", classes, "Inline"}
	inline, waitForInline := launchJava(t, append([]string{"-XX:CompileCommand=inline,Inline.*"}, flags...)...)
	apart, waitForApart := launchJava(t, append([]string{"-XX:-Inline"}, flags...)...)
	waitForInline()
	waitForApart()
	s := start(t, only(javaOptions(), inline, apart))
	defer s.Close()
	compiled := map[uint32]int64{}
	profiles := collectUntil(t, s, "both Java VMs have samples in compiled methods", func(more []Profile) bool {
		for _, p := range more {
			for _, pid := range []uint32{inline, apart} {
				for _, sample := range ofPID(p, pid) {
					if inCompiled(javaFrames(sample)) {
						compiled[pid] += sample.Value[0] / p.Pprof.Period
					}
				}
			}
		}
		return compiled[inline] >= inlineSamples && compiled[apart] >= inlineSamples
	})
	together := countSites(t, profiles, inline, sites, starts, true)
	together.compare(t, countSites(t, profiles, apart, sites, starts, false))
}

// inCompiled reports whether a stack is in compiled methods of Inline: all other stacks are of methods not compiled
// yet, or of the VM's own threads.
func inCompiled(frames []string) bool {
	return slices.ContainsFunc(frames, func(f string) bool { return strings.HasPrefix(f, "Inline.call Inline.java:") })
}

// siteCounts are samples by site; the last ones are elsewhere in the methods.
type siteCounts [5]float64

func countSites(
	t *testing.T, profiles []Profile, pid uint32, sites [][]string, starts map[string]int64, inlined bool,
) (n siteCounts) {
	t.Helper()
	var elsewhere []string
	folded := 0.0 // samples with one location that has several methods
	for _, p := range profiles {
		for _, sample := range ofPID(p, pid) {
			frames := javaFrames(sample)
			if !inCompiled(frames) {
				continue
			}
			count := float64(sample.Value[0] / p.Pprof.Period)
			site := siteOf(frames, sites)
			if site < 0 {
				site, elsewhere = len(n)-1, frames
			}
			n[site] += count
			if slices.ContainsFunc(sample.Location, func(l *profile.Location) bool { return len(l.Line) > 1 }) {
				folded += count
			}
		}
		for _, f := range p.Pprof.Function {
			if want, ok := starts[f.Name]; ok && f.Filename != "" && f.StartLine != want {
				t.Errorf("%s begins in line %d, javap says %d", f.Name, f.StartLine, want)
			}
		}
	}
	total := n.total()
	t.Logf("%v of %.0f samples at the sites and elsewhere, %.0f with inlined methods", n, total, folded)
	if total < wantedSamples/3 {
		t.Fatalf("%.0f samples in compiled methods", total)
	}
	if n[4] > total/50 {
		t.Errorf("%.0f of %.0f samples are where the program does not work, one is at\n%s", n[4], total,
			strings.Join(elsewhere, "\n"))
	}
	if inlined && folded < total*0.95 || !inlined && folded > 0 {
		t.Errorf("%.0f of %.0f samples have inlined methods", folded, total)
	}
	return n
}

func (n siteCounts) total() (total float64) {
	for _, count := range n {
		total += count
	}
	return total
}

// compare compares the shares of the methods a, b and c.
func (n siteCounts) compare(t *testing.T, other siteCounts) {
	methods := func(n siteCounts) [3]float64 {
		return [3]float64{n[0] / n.total(), n[1] / n.total(), (n[2] + n[3]) / n.total()}
	}
	ours, others := methods(n), methods(other)
	t.Logf("shares of a, b and c: %.3f inlined, %.3f apart", ours, others)
	for i := range ours {
		p := (ours[i] + others[i]) / 2
		bound := 0.02 + 5*math.Sqrt(p*(1-p)*(1/n.total()+1/other.total()))
		if math.Abs(ours[i]-others[i]) > bound {
			t.Errorf("a method has %.3f of the samples inlined, %.3f apart", ours[i], others[i])
		}
	}
}

var (
	methodHeader = regexp.MustCompile(`^  \S.* (\w+)\(.*;$`)
	firstLine    = regexp.MustCompile(`^\s+line (\d+): 0$`)
)

// startsOf returns the first lines of the methods of Inline, by what javap says.
func startsOf(t *testing.T, classes string) map[string]int64 {
	t.Helper()
	need.Tools(t, "javap")
	out, err := exec.Command("javap", "-l", "-p", filepath.Join(classes, "Inline.class")).Output()
	if err != nil {
		t.Fatal(err)
	}
	starts, method := map[string]int64{}, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if m := methodHeader.FindStringSubmatch(line); m != nil {
			method = "Inline." + m[1]
		} else if m := firstLine.FindStringSubmatch(line); m != nil {
			starts[method], _ = strconv.ParseInt(m[1], 10, 64)
		}
	}
	if len(starts) < 7 {
		t.Fatalf("methods begin at %v", starts)
	}
	return starts
}
