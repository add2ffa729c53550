package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headwater/headwater/ebpf/trial"
)

// program is a way to build one of testdata/programs.
type program struct {
	name   string // at most 15 bytes
	source string
	flags  []string
	strip  bool
}

func programs() []program {
	return []program{
		{name: "hwpie", source: "plain.c", flags: []string{"-pie", "-fPIE"}},
		{name: "hwexec", source: "plain.c", flags: []string{"-no-pie", "-fno-pie"}},
		{name: "hwstatic", source: "plain.c", flags: []string{"-static", "-no-pie"}},
		{name: "hwstaticpie", source: "plain.c", flags: []string{"-static-pie", "-fPIE"}},
		{name: "hwstripped", source: "plain.c", strip: true},
		{name: "hwframes", source: "plain.c", flags: []string{"-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"}},
		{name: "hwthreads", source: "threads.c", flags: []string{"-pthread"}},
		{name: "hwsignal", source: "signal.c"},
		{name: "hwaltstack", source: "signal.c", flags: []string{"-DALTERNATE"}},
		{name: "hwtrap", source: "trap.c"},
		{name: "hwcxx", source: "mill.cc"},
	}
}

// build compiles the program and returns its path.
func (p program) build(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), p.name)
	compiler := "gcc"
	if filepath.Ext(p.source) == ".cc" {
		compiler = "g++"
	}
	flags := slices.Concat(withoutFramePointers, p.flags)
	if p.strip {
		flags = append(flags, "-s")
	}
	compile(t, compiler, append(flags, "-o", path, filepath.Join("testdata/programs", p.source))...)
	return path
}

// TestPrograms profiles programs that are built in many ways and compares
// every stack with those that eu-stack tells of the same process.
func TestPrograms(t *testing.T) {
	requireRoot(t)
	requireTools(t, "eu-stack", "nm")
	server := startPyroscope(t)
	startHeadwater(t, hostConfig(server.url, "programs", ""))
	kernel := kernelSymbols(t)
	for _, p := range programs() {
		try := func(t *trial.T) {
			begin := time.Now()
			running := start(t, exec.Command(p.build(t), "60"))
			time.Sleep(200 * time.Millisecond) // to get through the dynamic linker
			native := nativeChains(t, busiestThread(t, running.pid()), 8, "")
			var all []stack
			eventually(t, 30*time.Second, "3 s of "+p.name+" are in Pyroscope", func() bool {
				all = ofCommand(stacks(server.profile(t, cpuProfile, `{service_name="programs"}`, begin)), p.name)
				return total(all) >= 3e9
			})
			running.kill(t)
			checkAgainst(t, all, native, kernel)
		}
		t.Run(p.name, func(t *testing.T) { trial.Run(t, try) })
	}
}

// checkAgainst demands that the most frequent chain is in the profile and that
// nearly all time is below chains that eu-stack has seen. The rest is the
// program's start and the instants between its calls.
func checkAgainst(t testing.TB, all []stack, native []chain, kernel map[string]bool) {
	t.Helper()
	best, known := int64(0), int64(0)
	var strange []stack
	for _, s := range all {
		user := s.frames[1:firstKernelFrame(s, kernel)]
		switch which := slices.IndexFunc(native, func(c chain) bool { return c.matchesCallers(user) }); {
		case which == 0:
			best += s.value
			fallthrough
		case which > 0:
			known += s.value
		default:
			strange = append(strange, s)
		}
	}
	t.Logf("%d ms, %d ms like eu-stack's stacks", total(all)/1e6, known/1e6)
	if best == 0 {
		t.Errorf("the stack that eu-stack finds most often is not in the profile:\n%v", native[0])
	}
	if share := float64(known) / float64(total(all)); share < 0.95 {
		t.Errorf("only %.3f of the time is in stacks that eu-stack saw; the first of them and the rest:\n%v\n%s", share, native[0], show(strange, 5))
	}
}

// busiestThread returns the thread of a process that has used most CPU time.
func busiestThread(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	busiest, most := 0, time.Duration(-1)
	for _, entry := range entries {
		tid, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		if used := cpuTime(t, fmt.Sprintf("%d/task/%d", pid, tid)); used > most {
			busiest, most = tid, used
		}
	}
	return busiest
}

// TestVDSO profiles a program that spends its time in the vdso: a named frame
// of it, called by libc's clock_gettime, and the stack whole.
func TestVDSO(t *testing.T) { trial.Run(t, tryVDSO) }

func tryVDSO(t *trial.T) {
	requireRoot(t)
	server := startPyroscope(t)
	startHeadwater(t, hostConfig(server.url, "vdso", ""))
	start(t, exec.Command(program{name: "hwvdso", source: "vdso.c"}.build(t), "60"))
	var all []stack
	eventually(t, 30*time.Second, "3 s of the program are in Pyroscope", func() bool {
		all = ofCommand(stacks(server.profile(t, cpuProfile, `{service_name="vdso"}`, time.Time{})), "hwvdso")
		return total(all) >= 3e9
	})
	inside := int64(0)
	for _, s := range all {
		at := slices.IndexFunc(s.frames, func(f frame) bool { return f.name == "__vdso_clock_gettime" })
		if at < 0 {
			continue
		}
		names := s.names()[:at]
		if !slices.Contains(names, "main") || !slices.Contains(names, "ask") || names[1] != "_start" {
			t.Errorf("the stack below the vdso is not whole: %v", s)
		}
		inside += s.value
	}
	if inside < total(all)/4 {
		t.Errorf("only %d of %d ms are in __vdso_clock_gettime:\n%s", inside/1e6, total(all)/1e6, show(all, 5))
	}
}

// TestDemangle shows one program's C++ names in the four ways.
func TestDemangle(t *testing.T) { trial.Run(t, tryDemangle) }

func tryDemangle(t *trial.T) {
	requireRoot(t)
	server := startPyroscope(t)
	mill := start(t, exec.Command(program{name: "hwmill", source: "mill.cc"}.build(t), "60"))
	want := map[string]string{
		"none":       "_ZN5water4MillIdE4turnEdm",
		"simplified": "water::Mill::turn",
		"templates":  "water::Mill<double>::turn",
		"full":       "water::Mill<double>::turn(double, unsigned long)",
	}
	config := fmt.Sprintf("pyroscope.write \"server\" {\n\tendpoint {\n\t\turl = %q\n\t}\n}\n", server.url)
	for mode := range want {
		config += fmt.Sprintf(`
pyroscope.ebpf "%[1]s" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__process_pid__" = "%[2]d", "service_name" = "%[1]s"}]
	collect_interval = "1s"
	demangle         = "%[1]s"
}
`, mode, mill.pid())
	}
	startHeadwater(t, config)
	for mode, name := range want {
		eventually(t, 20*time.Second, mode+" has "+name, func() bool {
			all := stacks(server.profile(t, cpuProfile, fmt.Sprintf("{service_name=%q}", mode), time.Time{}))
			return slices.ContainsFunc(all, func(s stack) bool { return s.has(name) })
		})
	}
}
