package integration

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/trial"
)

// TestNames profiles C, C++, Rust, Go stripped and not, node and fio at once, and
// compares the functions, files, lines and inlined calls of every sampled address
// with what addr2line, go tool addr2line, nm, perf maps and /proc/kallsyms say of
// it.
func TestNames(t *testing.T) {
	requireRoot(t)
	requireTools(t, "addr2line", "eu-addr2line", "llvm-addr2line", "readelf", "nm", "objdump", "node", "rustc")
	programs := buildNamed(t)
	trial.Run(t, func(t *trial.T) { tryNames(t, programs) })
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
		"hwplain": &n.plain, "hwtemplates": &n.templates, "hwgeneric": &n.generic, "hwgolang": &n.golang, "hwstripped": &n.stripped,
	} {
		*path = filepath.Join(dir, name)
	}
	compile(t, "gcc", "-O2", "-g", "-o", n.plain, "testdata/names/plain.c")
	compile(t, "g++", "-O2", "-g", "-o", n.templates, "testdata/names/templates.cc")
	compile(t, "rustc", "-C", "opt-level=3", "-g", "-C", "symbol-mangling-version=v0", "-o", n.generic, "testdata/names/generic.rs")
	for path, flags := range map[string]string{n.golang: "-compressdwarf=false", n.stripped: "-s -w"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags="+flags, "-o", path, "./testdata/names/golang")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOEXPERIMENT=nodwarf5") // which the addr2line of Debian 12 cannot read
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
}
`

// nanosPerProgram is how much of each program is to be seen, of CPU time.
const nanosPerProgram = 6e8

func tryNames(t *trial.T, programs named) {
	begin := time.Now()
	pids := map[string]int{}
	for name, path := range map[string]string{
		"plain": programs.plain, "templates": programs.templates, "generic": programs.generic, "golang": programs.golang, "stripped": programs.stripped,
	} {
		pids[name] = start(t, exec.Command(path, "300")).pid()
	}
	script, err := filepath.Abs("testdata/names/hot.js")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("node", "--perf-basic-prof", script, "300")
	command.Dir = t.TempDir() // it leaves a log there
	node := start(t, command).pid()
	t.Cleanup(func() { os.Remove(fmt.Sprintf("/tmp/perf-%d.map", node)) })
	fio := startFio(t, 300)
	eventually(t, 60*time.Second, "fio has a worker", func() bool { return len(children(t, fio.pid())) == 1 })
	pids["node"], pids["fio"] = node, children(t, fio.pid())[0]

	var targets []string
	for name, pid := range pids {
		targets = append(targets, fmt.Sprintf(`{"__process_pid__" = "%d", "service_name" = %q}`, pid, name))
	}
	h := startHeadwater(t, fmt.Sprintf(namesConfig, strings.Join(targets, ", ")))
	var p *profile.Profile
	eventually(t, 3*time.Minute, "a second of each program is in the profile", func() bool {
		time.Sleep(time.Second) // for the page merges profiles anew each time
		p = h.download(t)
		seen := map[string]int64{}
		for _, s := range stacks(p) {
			seen[s.frames[0].name] += s.value
		}
		return len(seen) == len(pids) && !slices.ContainsFunc(slices.Collect(maps.Values(seen)), func(n int64) bool { return n < nanosPerProgram })
	})
	t.Logf("profiled after %v", time.Since(begin))
	j := newNameJudge(t, programs, readPerfMap(t, node))
	j.judge(t, p)
	j.report(t)
	t.Logf("compared after %v", time.Since(begin))
}

// download returns the newest profiles of all targets as the page gives them,
// nil if there are none yet.
func (h *headwater) download(t testing.TB) *profile.Profile {
	t.Helper()
	response, err := http.Get(h.url + pagePath + "download")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &profile.Profile{}
	}
	p, err := profile.Parse(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
