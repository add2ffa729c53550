package probe

import (
	"context"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/source/snapshot"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// chains are the deepest stacks of testdata/returns.cc, from main on; each of its stacks is the start of a chain. "..."
// stands for any functions.
var chains = []string{
	"nested outer middle inner burn",
	"recursion" + strings.Repeat(" recurse", 21) + " burn",
	"tails jumps",
	"tails target burn",
	"traps pushes",
	"traps steps",
	"leaves jumper deeper burn",
	"leaves burn",
	"signals interrupted getpid",
	"signals interrupted __restore_rt handler burn",
	"exceptions catcher speaks burn",
	"exceptions catcher ...",
	"getppid",
	"forks fork ...",
	"forks __wait4",
	"forks nested outer middle inner burn",
	"forks _exit",
	"waits asks __libc_read",
}

// returning are the functions with a return probe. One is in the list twice.
var returning = []string{
	"nested", "outer", "middle", "inner", "recursion", "recurse", "target", "jumps", "tails", "pushes", "steps", "traps",
	"deeper", "jumper", "leaves", "handler", "interrupted", "signals", "_ZN3dog6speaksEv", "catcher", "exceptions",
	"forks", "inner", "waits", "asks",
}

// root are the callers of main in a static program.
const root = "_start __libc_start_main __libc_start_call_main main"

// TestStacksThroughReturnProbes: stacks through functions whose return addresses the kernel has replaced for return
// probes, as other tools use them, are whole, and have the functions that called each other: where the kernel walks,
// and in new processes where user space walks; in samples, in hits of other probes and in waiting threads. The same
// holds for stacks of threads that are in the middle of an instruction because the kernel handles a probe of it.
func TestStacksThroughReturnProbes(t *testing.T) {
	need.Root(t)
	need.Tools(t, "g++")
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "functions of the program are written in instructions of amd64")
	}
	dir := t.TempDir()
	framePointers := []string{"-O1", "-fno-omit-frame-pointer", "-fcf-protection=none"}
	programs := map[string]*returnProgram{
		"hwreturns-fp": {probes: returnProbes, flags: framePointers},
		"hwreturns":    {probes: returnProbes, flags: []string{"-O2", "-fomit-frame-pointer", "-fcf-protection=full"}},
		"hwentries":    {probes: entryProbes, flags: framePointers},
	}
	for name, p := range programs {
		p.build(t, filepath.Join(dir, name))
	}
	s, err := sampler.Open(sampler.Options{TableBytes: 4 << 20, Patience: time.Minute, Only: uint32(os.Getpid())})
	s = need.Opened[*kernel.PermissionError](t, s, err)
	require.NoError(t, s.Configure(sampler.Config{
		SampleRate: 997, UserStacks: true, KernelStacks: true, TableBytes: 4 << 20,
	}))
	for _, p := range programs {
		p.probe(t)
		for _, mode := range []string{"all", "forks", "waits"} {
			cmd := exec.Command(p.path, mode)
			if mode == "waits" {
				_, err := cmd.StdinPipe() // stays open
				require.NoError(t, err)
				p.waiting = testkit.Run(t, cmd)
				continue
			}
			testkit.Run(t, cmd)
		}
	}
	const enough = 1000
	var mu sync.Mutex
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = s.Run(ctx, func(sample *sampler.Sample) error {
			mu.Lock()
			defer mu.Unlock()
			if p := programs[sample.Comm]; p != nil && sample.Outcome.HasUserPart() {
				p.judge(sample)
			}
			return nil
		})
	})
	hits := map[string]int{}
	prober := New(Options{
		Completer: s,
		Target:    func(uint32) (*target.Target, bool) { return nil, true },
		Use: func(sample *sampler.Sample) {
			mu.Lock()
			defer mu.Unlock()
			p := programs[sample.Comm]
			if p == nil {
				return
			}
			text := p.stack(sample)
			if chain := chainOf(text); chain != "" {
				hits[chain]++
			} else if text != "incomplete 0x7fffffffe000 inner burn" { // of a process that has just started
				p.wrong["hit: "+text]++
			}
		},
	})
	c := Config{UserStacks: true}
	for _, p := range programs {
		link, err := Parse("uprobe:" + p.path + ":burn")
		require.NoError(t, err)
		c.Probes = append(c.Probes, link)
	}
	testkit.Eventually(t, fmt.Sprint(enough, " samples are taken in each program"), func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range programs {
			if p.samples < enough {
				return false
			}
		}
		return true
	})
	prober.Update(c)
	testkit.Eventually(t, "the innermost function is called 200 times", func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, of := range hits {
			n += of
		}
		return n >= 200
	})
	prober.Stop()
	stop()
	running.Wait()
	for name, p := range programs {
		p.report(t, name)
		p.checkWaiting(t)
	}
	for _, chain := range slices.Sorted(maps.Keys(hits)) {
		t.Logf("%5d hits in %s", hits[chain], chain)
	}
}

// notRead are outcomes on busy machines: of programs that end before they are known, or whose stack is not mapped yet.
var notRead = map[unwind.Outcome]bool{
	unwind.ProcessUnknown: true, unwind.PageMissing: true, unwind.RecordsLost: true, unwind.UnreadableStack: true,
}

// The places of probes, as in perf_event_open.
const (
	entryProbes  = 0
	returnProbes = 1
)

// returnProgram is a build of testdata/returns.cc.
type returnProgram struct {
	probes    uint64
	flags     []string
	path      string
	functions []elf.Symbol // sorted by address; names of one address one after the other
	offsets   map[string]uint64
	waiting   uint32 // the PID of a process that waits

	samples      int
	whole, wrong map[string]int // by chain, and by text
	missing      map[string]int
}

func (p *returnProgram) build(t *testing.T, path string) {
	p.path, p.offsets = path, map[string]uint64{}
	p.whole, p.wrong, p.missing = map[string]int{}, map[string]int{}, map[string]int{}
	build := exec.Command("g++", append(p.flags, "-static", "-fno-optimize-sibling-calls", "-o", path,
		"testdata/returns.cc")...)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	for _, s := range symbols {
		if s.Name == "__restore_rt" { // the return address of a signal handler
			s.Size = 16
		}
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 {
			continue
		}
		section := file.Sections[s.Section]
		p.offsets[s.Name] = s.Value - section.Addr + section.Offset
		p.functions = append(p.functions, s)
	}
}

// probe puts probes at the program's functions until the test ends, as other tools do.
func (p *returnProgram) probe(t *testing.T) {
	const device = "/sys/bus/event_source/devices/uprobe/"
	kind, err := os.ReadFile(device + "type")
	require.NoError(t, err)
	number, err := strconv.ParseUint(strings.TrimSpace(string(kind)), 10, 32)
	require.NoError(t, err)
	name := append([]byte(p.path), 0)
	events := make([]int, len(returning))
	var group errgroup.Group // each waits for all CPUs
	for i, function := range returning {
		group.Go(func() (err error) {
			attr := unix.PerfEventAttr{
				Type: uint32(number), Config: p.probes,
				Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
				Ext1: uint64(uintptr(unsafe.Pointer(&name[0]))), Ext2: p.offsets[function],
			}
			events[i], err = unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
			return err
		})
	}
	require.NoError(t, group.Wait())
	runtime.KeepAlive(name)
	t.Cleanup(func() {
		var group errgroup.Group
		for _, event := range events {
			group.Go(func() error { return unix.Close(event) })
		}
		_ = group.Wait()
	})
}

// judge counts a sample of the program.
func (p *returnProgram) judge(s *sampler.Sample) {
	text := p.stack(s)
	switch chain := chainOf(text); {
	case chain != "":
		p.whole[chain]++
	case strings.HasPrefix(text, "incomplete 0x"), // the trampoline, or an address outside of code
		s.Outcome == unwind.Guessed && endsInTrampoline(text):
		p.missing[text]++
	case notRead[s.Outcome], !s.Outcome.Complete() && !slices.ContainsFunc(strings.Fields(text), isInChains):
		return // the second case is before main, in code without CFI
	default:
		p.wrong[fmt.Sprintf("%s, in user mode %v, walked by %d: %s", s.Outcome, s.InUser, s.Finish, text)]++
	}
	p.samples++
}

// endsInTrampoline reports whether the innermost function of a stack has no name: the kernel handles a return, and has
// already taken the true return address from its list. Callers are then guessed by frame pointers, and marked.
func endsInTrampoline(text string) bool {
	return strings.HasPrefix(text[strings.LastIndexByte(text, ' ')+1:], "0x")
}

// report fails the test if there are wrong stacks.
func (p *returnProgram) report(t *testing.T, name string) {
	for _, chain := range slices.Sorted(maps.Keys(p.whole)) {
		t.Logf("%s: %5d %s", name, p.whole[chain], chain)
	}
	missing := 0
	for _, text := range slices.Sorted(maps.Keys(p.missing)) {
		t.Logf("%s: %5d %s", name, p.missing[text], text)
		missing += p.missing[text]
	}
	// The kernel has no list in a process that ends, and a list without the innermost function while it handles the
	// function's entry. A trap at an instruction that pops a word is now and then reported right after the pop.
	require.LessOrEqual(t, missing, p.samples/100, "of %d stacks end outside of code", p.samples)
	for _, text := range slices.Sorted(maps.Keys(p.wrong)) {
		t.Errorf("%s: %d of %d samples: %s", name, p.wrong[text], p.samples, text)
	}
}

// checkWaiting checks the process that waits, as headwater stack does.
func (p *returnProgram) checkWaiting(t *testing.T) {
	taker, err := snapshot.Open(p.waiting)
	require.NoError(t, err)
	defer func() { require.NoError(t, taker.Close()) }()
	stacks, err := taker.Take(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, stacks, 1)
	require.Equal(t, root+" waits asks __libc_read", p.stack(stacks[0].Sample))
}

// chainOf returns the first of chains that starts with a stack; "" if there is none.
func chainOf(text string) string {
	rest, ok := strings.CutPrefix(text+" ", root+" ")
	if !ok {
		before, _, _ := strings.Cut(root, " __libc_start_call_main")
		if strings.HasPrefix(root, text) || strings.HasPrefix(text, before) && !strings.Contains(text, " main ") {
			return "before main"
		}
		return ""
	}
	for _, chain := range chains {
		if before, found := strings.CutSuffix(chain, "..."); found && strings.HasPrefix(rest, before) ||
			strings.HasPrefix(chain+" ", rest) {
			return chain
		}
	}
	return ""
}

// stack returns the functions of a stack, the outermost first, and "incomplete" before them if it is not whole.
func (p *returnProgram) stack(s *sampler.Sample) string {
	var names []string
	for _, f := range s.User {
		name := fmt.Sprintf("%#x", f.Vaddr)
		for _, symbol := range p.functions {
			if f.Exe != 0 && f.Lookup() >= symbol.Value && f.Lookup() < symbol.Value+symbol.Size {
				name = betterName(name, strings.TrimSuffix(symbol.Name, ".cold"))
			}
		}
		names = append(names, name)
	}
	if !s.Outcome.Complete() {
		names = append(names, "incomplete")
	}
	slices.Reverse(names)
	return strings.Join(names, " ")
}

// betterName returns the one of two names of the same address that chains have.
func betterName(a, b string) string {
	if strings.Contains(b, "speaks") {
		return "speaks"
	}
	if isInChains(b) || strings.HasPrefix(a, "0x") {
		return b
	}
	return a
}

// isInChains reports whether chains, or the callers of main, have a function.
func isInChains(function string) bool {
	return slices.ContainsFunc(append(chains, root), func(chain string) bool {
		return slices.Contains(strings.Fields(chain), function)
	})
}
