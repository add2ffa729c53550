package names

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/record"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestNames profiles C, C++, Rust, Go stripped and not, node and fio at once. It compares
// functions, files, lines and inlined calls of every sampled address with what addr2line,
// go tool addr2line, nm, perf maps and /proc/kallsyms have for it.
func TestNames(t *testing.T) {
	need.Root(t)
	need.Tools(t, "addr2line", "eu-addr2line", "llvm-addr2line", "readelf", "nm", "objdump", "node", "rustc")
	save := record.Test(t, "names", "go test -v -run '^TestNames$' ./integration/names")
	programs := buildNamed(t)
	save(tryNames(t, programs))
}

// named are the programs of testdata/names.
type named struct {
	plain, templates, generic string
	golang, stripped          string // the same program
}

func buildNamed(t testing.TB) named {
	t.Helper()
	dir := t.TempDir()
	n := named{}
	for name, path := range map[string]*string{
		"hwplain": &n.plain, "hwtemplates": &n.templates, "hwgeneric": &n.generic, "hwgolang": &n.golang,
		"hwstripped": &n.stripped,
	} {
		*path = filepath.Join(dir, name)
	}
	rig.Compile(t, "gcc", "-O2", "-g", "-o", n.plain, "testdata/names/plain.c")
	rig.Compile(t, "g++", "-O2", "-g", "-o", n.templates, "testdata/names/templates.cc")
	rig.Compile(t, "rustc", "-C", "opt-level=3", "-g", "-C", "symbol-mangling-version=v0",
		"-o", n.generic, "testdata/names/generic.rs")
	for path, flags := range map[string]string{n.golang: "-compressdwarf=false", n.stripped: "-s -w"} {
		// Paths are compared: they must be the paths of the sources, independent of GOFLAGS.
		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath=false", "-ldflags="+flags,
			"-o", path, "./testdata/names/golang")
		// The addr2line of Debian 12 cannot read DWARF 5.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=nodwarf5")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	return n
}

const namesConfig = `
pyroscope.ebpf "host" {
	forward_to       = []
	targets          = [%s]
	collect_interval = "1s"
	sample_rate      = 397
	demangle         = "none"
	v8_enabled       = false // the names of node's perf map are compared
}
`

// nanosPerProgram is how much CPU time of each program the test waits for.
const nanosPerProgram = 6e8

func tryNames(t *testing.T, programs named) map[string]int {
	begin := time.Now()
	pids := map[string]int{}
	var running []*rig.Process
	for name, path := range map[string]string{
		"plain": programs.plain, "templates": programs.templates, "generic": programs.generic, "golang": programs.golang,
		"stripped": programs.stripped,
	} {
		running = append(running, rig.Start(t, exec.Command(path, "300")))
		pids[name] = running[len(running)-1].PID()
	}
	script, err := filepath.Abs("testdata/names/hot.js")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("node", "--perf-basic-prof", script, "300")
	command.Dir = t.TempDir() // it leaves a log there
	running = append(running, rig.Start(t, command))
	node := running[len(running)-1].PID()
	t.Cleanup(func() { os.Remove(fmt.Sprintf("/tmp/perf-%d.map", node)) })
	fio := rig.StartFio(t, 300)
	testkit.Eventually(t, "fio has a worker", func() bool { return len(rig.Children(t, fio.PID())) == 1 })
	pids["node"], pids["fio"] = node, rig.Children(t, fio.PID())[0]

	var targets []string
	for name, pid := range pids {
		targets = append(targets, fmt.Sprintf(`{"__process_pid__" = "%d", "service_name" = %q}`, pid, name))
	}
	h := rig.StartHeadwater(t, fmt.Sprintf(namesConfig, strings.Join(targets, ", ")))
	var p *profile.Profile
	testkit.Eventually(t, "a second of each program is in the profile", func() bool {
		time.Sleep(time.Second)
		p = h.Download(t)
		seen := map[string]int64{}
		for _, s := range rig.Stacks(p) {
			seen[s.Frames[0].Name] += s.Value
		}
		return len(seen) == len(pids) && !slices.ContainsFunc(slices.Collect(maps.Values(seen)),
			func(n int64) bool { return n < nanosPerProgram })
	})

	t.Logf("profiled after %v", time.Since(begin))
	j := newNameJudge(t, programs, readPerfMap(t, node))
	for _, program := range running { // the tools that judge want the CPUs
		program.Kill(t)
	}
	j.judge(t, p)
	t.Logf("compared after %v", time.Since(begin))
	return j.report(t)
}
