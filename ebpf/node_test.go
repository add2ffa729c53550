package ebpf

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/language/v8"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// nodeChains are the callers of leaf in testdata/node/chains.js, the innermost first.
var nodeChains = map[string][]string{
	"compare":  {"bySort", "round", "onTimer"},
	"replacer": {"byJSON", "round", "onTimer"},
	"byAwait":  {},
	"items":    {"byGenerator", "round", "onTimer"},
	"area":     {"byMethod", "round", "onTimer"},
	"onTimer":  {"listOnTimeout", "processTimers"},
}

// scripted returns the functions of JavaScript in a stack, leaf first.
func scripted(s *profile.Sample) (functions []profile.Line) {
	for _, l := range s.Location {
		if l.Mapping != nil && strings.HasPrefix(l.Mapping.File, "[V8 ") {
			functions = append(functions, l.Line...)
		}
	}
	return functions
}

// TestNodeStacks profiles functions of JavaScript that call each other as in the source, directly and through parts of
// V8, as its interpreter runs them and as each of its compilers has compiled them.
func TestNodeStacks(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "node")
	t.Run("as it comes", func(t *testing.T) { checkNodeStacks(t, nil) })
	t.Run("interpreted", func(t *testing.T) {
		testkit.Nightly(t, "the part \"as it comes\" begins in the interpreter")
		checkNodeStacks(t, []string{"--no-opt", "--no-sparkplug"})
	})
	t.Run("baseline", func(t *testing.T) {
		testkit.Nightly(t, "the part \"as it comes\" is compiled when it is hot")
		checkNodeStacks(t, []string{"--no-opt", "--always-sparkplug"})
	})
}

// startNode starts a script, which prints a line when it works.
func startNode(t *testing.T, script string, flags []string) (pid uint32, path string) {
	t.Helper()
	path, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", append(flags, path)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pid = testkit.Run(t, cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("node: %q, %v", line, err)
	}
	return pid, path
}

func checkNodeStacks(t *testing.T, flags []string) {
	t.Helper()
	pid, script := startNode(t, "testdata/node/chains.js", flags)
	o := only(javaOptions(), pid)
	session := start(t, o)
	defer session.Close()
	settleNode(t, session, pid, func(s *profile.Sample) bool {
		functions := scripted(s)
		return len(functions) > 0 && functions[0].Function.Name == "leaf" && checkNodeChain(functions, script) == ""
	})
	var all, good, unready int64
	seen := map[string]bool{}
	collectUntil(t, session, "leaf was called in all ways", func(more []Profile) bool {
		for _, p := range more {
			for _, s := range ofPID(p, pid) {
				functions := scripted(s)
				n := s.Value[0] / p.Pprof.Period
				if len(functions) == 0 || functions[0].Function.Name != "leaf" {
					continue
				}
				if endsUnready(frameNames(s)) {
					unready += n
					continue
				}
				all += n
				if problem := checkNodeChain(functions, script); problem != "" {
					t.Logf("%d: %s in %s", n, problem, describe(s))
					continue
				}
				good += n
				seen[functions[1].Function.Name] = true
			}
		}
		return all >= wantedSamples/2 && len(seen) >= len(nodeChains) || all >= 100*wantedSamples
	})
	t.Logf("%d of %d stacks are as the source says, %d had no rows yet", good, all, unready)
	if good*50 < all*49 || len(seen) != len(nodeChains) || unready > all {
		t.Errorf("%d of %d stacks are as the source says; leaf was called by %v", good, all, seen)
	}
	o.LanguagesOff = map[string]bool{v8.Name: true}
	if err := session.Update(o); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Collect(); err != nil { // samples from before
		t.Fatal(err)
	}
	for _, p := range collect(t, session, pid, wantedSamples/10) {
		for _, s := range ofPID(p, pid) {
			if len(scripted(s)) > 0 {
				t.Errorf("functions are shown that are not to be: %s", describe(s))
			}
		}
	}
}

// settleNode collects until some stacks are right: then V8 has compiled the hot functions, and node's large file has
// been read.
func settleNode(t testing.TB, s *Session, pid uint32, right func(*profile.Sample) bool) {
	t.Helper()
	had := int64(0)
	collectUntil(t, s, "node's stacks are as the source says", func(more []Profile) bool {
		for _, p := range more {
			for _, sample := range ofPID(p, pid) {
				if right(sample) {
					had += sample.Value[0] / p.Pprof.Period
				}
			}
		}
		return had >= settledSamples
	})
}

// TestNodeInlined profiles functions that V8's optimising compiler has inlined: they are lines of one location.
func TestNodeInlined(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Tools(t, "node")
	pid, script := startNode(t, "testdata/node/inlined.js", nil)
	session := start(t, only(javaOptions(), pid))
	defer session.Close()
	settleNode(t, session, pid, func(s *profile.Sample) bool {
		return len(scripted(s)) > 1 && checkNodeInlined(s, script) == ""
	})
	var all, good, unready int64
	for _, p := range collect(t, session, pid, wantedSamples) {
		for _, s := range ofPID(p, pid) {
			functions := scripted(s)
			n := s.Value[0] / p.Pprof.Period
			if len(functions) == 0 {
				continue
			}
			if endsUnready(frameNames(s)) {
				unready += n
				continue
			}
			all += n
			if problem := checkNodeInlined(s, script); problem != "" {
				t.Logf("%d: %s in %s", n, problem, describe(s))
				continue
			}
			good += n
		}
	}
	t.Logf("%d of %d stacks are as the source says, %d had no rows yet", good, all, unready)
	if good*20 < all*19 || all < wantedSamples/2 || unready > all {
		t.Errorf("%d of %d stacks are as the source says, %d had no rows yet", good, all, unready)
	}
}

// checkNodeInlined describes the error in a stack of testdata/node/inlined.js. A leaf may be in any of its functions.
func checkNodeInlined(s *profile.Sample, script string) string {
	type place struct {
		name        string
		start, line int64
	}
	want := []place{{"inner", 5, 6}, {"middle", 10, 12}, {"outer", 15, 18}}
	at := slices.IndexFunc(s.Location, func(l *profile.Location) bool {
		return l.Mapping != nil && strings.HasPrefix(l.Mapping.File, "[V8 ")
	})
	lines := s.Location[at].Line
	if at == 0 && len(lines) < len(want) {
		want = want[len(want)-len(lines):]
	}
	if len(lines) != len(want) {
		return "not inlined"
	}
	for i, w := range want {
		f := lines[i].Function
		if f.Name != w.name || f.StartLine != w.start || f.Filename != script {
			return "no " + w.name
		}
		if lines[i].Line != w.line && at > 0 {
			return w.name + " is in another line"
		}
	}
	return ""
}

// describe returns the functions and lines of a stack, leaf first.
func describe(s *profile.Sample) string {
	var b strings.Builder
	for _, location := range s.Location {
		for _, l := range location.Line {
			b.WriteString(l.Function.Name + ":" + itoa(uint32(l.Line)) + " ")
		}
	}
	return b.String()
}

// nodeStart has the first lines of functions of testdata/node/chains.js.
var nodeStart = map[string]int64{
	"leaf": 3, "bySort": 12, "compare": 13, "byJSON": 19, "byAwait": 26, "round": 50, "onTimer": 58,
}

// nodeCall is the line at which a function is when leaf works.
var nodeCall = map[string][]int64{
	"bySort": {13}, "compare": {14}, "byJSON": {20}, "replacer": {21}, "byAwait": {28}, "items": {32}, "byGenerator": {37},
	"area": {42}, "byMethod": {47}, "onTimer": {59, 60}, "round": {51, 52, 53, 54},
}

// checkNodeChain describes the error in a stack in leaf.
func checkNodeChain(functions []profile.Line, script string) string {
	if len(functions) < 2 {
		return "nobody called it"
	}
	chain, ok := nodeChains[functions[1].Function.Name]
	if !ok || len(functions) < 2+len(chain) {
		return "not in the source"
	}
	for i, want := range chain {
		if functions[2+i].Function.Name != want {
			return "no " + want
		}
	}
	for _, l := range functions {
		f := l.Function
		if start, ok := nodeStart[f.Name]; ok && (f.StartLine != start || f.Filename != script) {
			return f.Name + " begins elsewhere"
		}
		// Line 0: baseline code has no position.
		if calls, ok := nodeCall[f.Name]; ok && l.Line != 0 && !slices.Contains(calls, l.Line) {
			return f.Name + " is in another line"
		}
	}
	return ""
}
