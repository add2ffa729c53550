package names

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// service is a server in one language, and how its frames look.
type service struct {
	name    string
	tools   []string
	command func(t *testing.T) *exec.Cmd
	workers int    // processes that the server starts, which answer in its place
	source  string // its functions are in testdata/services

	runs  func(frame) bool // a frame of the language's runtime, named or not: the language was running
	named func(frame) bool // a function of the language
	// chain lists functions on the path of each request, outermost first, possibly with other functions between them.
	// The last one is the handler, in source.
	chain []string
	leaf  bool              // a leaf that has not made its frame yet is shown as its caller
	calls map[string]string // the functions of source that the handler leads to, each with its caller
}

// frame is a function of a stack as a profile shows it.
type frame struct {
	name, mapping, file string
	start, line         int
}

// String implements fmt.Stringer.
func (f frame) String() string { return f.name }

var services = []service{
	{
		name:  "gunicorn",
		tools: []string{"gunicorn"},
		command: func(*testing.T) *exec.Cmd {
			return exec.Command("gunicorn", "--chdir", "testdata/services", "--bind", "127.0.0.1:0", "shop:application")
		},
		workers: 1,
		source:  "shop.py",
		runs:    func(f frame) bool { return f.name == "_PyEval_EvalFrameDefault" },
		named:   func(f frame) bool { return strings.HasPrefix(f.mapping, "[python ") && !unnamed(f) },
		chain: []string{"<module>", "run", "Arbiter.run", "Arbiter.spawn_worker", "SyncWorker.run",
			"SyncWorker.handle_request", "application"},
		calls: map[string]string{"render": "application", "price": "render", "backwards": "application"},
	},
	{
		name:    "node",
		tools:   []string{"node"},
		command: func(*testing.T) *exec.Cmd { return exec.Command("node", "testdata/services/shop.js") },
		source:  "shop.js",
		runs: func(f frame) bool {
			return strings.HasPrefix(f.name, "Builtins_JSEntry") || strings.HasPrefix(f.mapping, "[V8 ")
		},
		named: func(f frame) bool { return strings.HasPrefix(f.mapping, "[V8 ") && !unnamed(f) },
		leaf:  true,
		chain: []string{"parserOnHeadersComplete", "parserOnIncoming", "emit", "handle"},
		calls: map[string]string{"render": "handle", "price": "render", "compare": "handle"},
	},
	{
		name:  "java",
		tools: []string{"java", "javac"},
		command: func(t *testing.T) *exec.Cmd {
			dir := t.TempDir()
			rig.Compile(t, "javac", "-d", dir, "testdata/services/Shop.java")
			return exec.Command("java", "-Dsun.net.httpserver.nodelay=true", "-cp", dir, "Shop")
		},
		source: "Shop.java",
		runs:   func(f frame) bool { return f.mapping == "[jit]" },
		named: func(f frame) bool {
			return (f.mapping == "[jit]" || strings.HasPrefix(f.mapping, "[java ")) && method.MatchString(f.name)
		},
		chain: []string{"java.lang.Thread.run", "java.util.concurrent.ThreadPoolExecutor.runWorker",
			"sun.net.httpserver.ServerImpl$Exchange.run", "com.sun.net.httpserver.Filter$Chain.doFilter", "Shop.handle"},
		calls: map[string]string{"Shop.render": "Shop.handle", "Shop.price": "Shop.render", "Shop.compare": "Shop.handle"},
	},
}

// unnamed reports whether a frame says only what its code is: "[V8 11.3 code]", "[unknown]".
func unnamed(f frame) bool { return strings.HasPrefix(f.name, "[") }

// method is how Java's methods are shown; the VM's own code has other names.
var method = regexp.MustCompile(`^[\w$/]+(\.[\w$/<>]+)+$`)

// TestServices profiles servers that answer requests, as their operators would. Stacks are complete; if a server's
// language runs, its functions are shown; a request's handler is below the functions that lead to it; and the program's
// functions call each other according to its source.
func TestServices(t *testing.T) {
	testkit.Nightly(t, "the tests of Python, Java and Node.js check such chains of programs that do one thing")
	need.Root(t)
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			need.Tools(t, s.tools...)
			server := rig.Start(t, s.command(t))
			load := startLoad(t, server)
			load.wait(t, 300)
			pid := server.PID()
			if s.workers > 0 {
				pid = rig.Children(t, pid)[0]
			}
			retry.Run(t, func(t *retry.T) { s.try(t, load, pid) })
		})
	}
}

// enough samples are in the handler before they are judged.
const enough = 200

func (s *service) try(t *retry.T, load *load, pid int) {
	o := ebpf.Options{}
	o.Comm, o.SampleRate, o.NoKernelStacks, o.TargetsOnly = ebpf.CommNone, 497, true, true
	o.Targets = []map[string]string{{"__process_pid__": fmt.Sprint(pid), "service_name": s.name}}
	session, err := ebpf.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	// What runs often has its rows in the kernel then, and the code that the runtime makes does not change much more.
	first := s.collect(t, session, load)
	t.Logf("first: %v", first)
	seen := s.collect(t, session, load)
	t.Log(seen)
	for _, c := range []struct {
		what      string
		part, all int
	}{
		{"stacks are whole", seen.whole, seen.all},
		{"stacks in " + s.name + " have a named function", seen.named, seen.running},
		{"stacks with the handler have " + strings.Join(s.chain, ", "), seen.chain, seen.handler},
	} {
		if c.part*100 < c.all*95 {
			t.Errorf("%d of %d %s, want 95 %%:\n%s", c.part, c.all, c.what, strings.Join(seen.strange, "\n"))
		}
	}
	if len(seen.wrong) > 0 {
		t.Errorf("%s does not say so:\n%s", s.source, strings.Join(seen.wrong, "\n"))
	}
	if !slices.Equal(slices.Sorted(maps.Keys(seen.functions)), slices.Sorted(maps.Keys(s.calls))) {
		t.Errorf("of the program's functions only %v were sampled", seen.functions)
	}
}

// seen is numbers of samples.
type seen struct {
	all, whole     int
	running, named int // where the language runs; and with a function of the language
	handler, chain int // in the program's handler; and with the functions that lead to it

	functions map[string]int // of the program, but for the handler
	wrong     []string       // what the program's source does not say
	strange   []string       // stacks without names, or without those that lead to the handler
}

// String implements fmt.Stringer.
func (n *seen) String() string {
	return fmt.Sprintf("%d stacks, %d whole; %d in the language, %d named; %d in the handler, %d with its chain; %v",
		n.all, n.whole, n.running, n.named, n.handler, n.chain, n.functions)
}

// collect profiles the server until enough samples are in its handler.
func (s *service) collect(t *retry.T, session *ebpf.Session, load *load) *seen {
	n := &seen{functions: map[string]int{}}
	for n.handler < enough {
		load.wait(t, 20)
		profiles, err := session.Collect()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range profiles {
			n.all += int(p.WithUser)
			n.whole += int(p.Complete)
			for _, sample := range p.Pprof.Sample {
				s.look(t, n, framesOf(sample), int(sample.Value[0]/p.Pprof.Period))
			}
		}
	}
	return n
}

// look judges a stack that n samples have.
func (s *service) look(t testing.TB, seen *seen, frames []frame, n int) {
	named := slices.ContainsFunc(frames, s.named)
	if !named && !slices.ContainsFunc(frames, s.runs) {
		return
	}
	seen.running += n
	if !named {
		seen.strange = append(seen.strange, fmt.Sprintf("%d have no named function: %v", n, frames))
		return
	}
	seen.named += n
	handler := s.chain[len(s.chain)-1]
	if slices.ContainsFunc(frames, func(f frame) bool { return f.name == handler }) {
		seen.handler += n
		if s.inChain(frames) {
			seen.chain += n
		} else {
			seen.strange = append(seen.strange, fmt.Sprintf("%d are not in the chain: %v", n, frames))
		}
	}
	s.compare(t, seen, frames, n)
}

// inChain reports whether the functions that lead to the handler are in the stack, outermost first.
func (s *service) inChain(frames []frame) bool {
	next := 0
	for _, f := range slices.Backward(frames) {
		if next < len(s.chain) && f.name == s.chain[next] {
			next++
		}
	}
	return next == len(s.chain)
}

// compare compares the program's functions in a stack with its source.
func (s *service) compare(t testing.TB, seen *seen, frames []frame, n int) {
	declared := declarations(t, s.source)
	caller := ""
	for at, f := range slices.Backward(frames) {
		if filepath.Base(f.file) != s.source {
			continue
		}
		name := f.name[strings.LastIndex(f.name, ".")+1:]
		if want := s.calls[f.name]; want != caller && !(s.leaf && (at == 0 || f.name == caller)) {
			seen.wrong = append(seen.wrong, fmt.Sprintf("%d: %q calls %s, in %v", n, caller, f.name, frames))
		}
		if by := declared(f.start); by != name {
			seen.wrong = append(seen.wrong, fmt.Sprintf("%d: %s begins in line %d, in %s", n, f.name, f.start, by))
		}
		if by := declared(f.line); f.line != 0 && by != name {
			seen.wrong = append(seen.wrong, fmt.Sprintf("%d: %s is in line %d, in %s", n, f.name, f.line, by))
		}
		if caller != "" && f.name != caller {
			seen.functions[f.name] += n
		}
		caller = f.name
	}
}

// declaration is the first line of a function in one of the three languages.
var declaration = regexp.MustCompile(`^\s*(?:def|function|static int|double|String|public void) (\w+)\(.*[{:]$`)

// declarations returns which function a line of a source is in.
func declarations(t testing.TB, source string) func(line int) string {
	lines := strings.Split(rig.ReadFile(t, filepath.Join("testdata/services", source)), "\n")
	return func(line int) string {
		for at := min(line, len(lines)) - 1; at >= 0; at-- {
			if found := declaration.FindStringSubmatch(lines[at]); found != nil {
				return found[1]
			}
		}
		return ""
	}
}

// framesOf returns the functions of a sample, leaf first, inlined ones too.
func framesOf(sample *profile.Sample) (frames []frame) {
	for _, l := range sample.Location {
		for _, line := range l.Line {
			f := frame{name: line.Function.Name, file: line.Function.Filename, start: int(line.Function.StartLine),
				line: int(line.Line)}
			if l.Mapping != nil {
				f.mapping = l.Mapping.File
			}
			frames = append(frames, f)
		}
	}
	return frames
}
