package probe

import (
	"bytes"
	"context"
	"io"
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

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// calls is how often the program calls its function: less than a buffer holds.
const calls = 100

// seen is the result of a probe at the program.
type seen struct {
	samples, sum uint64
	whole        uint64 // samples with a whole stack
	depth        []int  // of their stacks
}

// TestCalls: each call of a function is a hit, of a uprobe, a uretprobe and a USDT probe with its semaphore. The sums
// of arguments and results are right, stacks are whole, and a probe that cannot be attached does not affect other
// probes.
func TestCalls(t *testing.T) {
	need.Root(t)
	program := compileProbed(t)
	found, stats := runProbed(t, program, []string{
		"uprobe:" + program + ":work",
		"uprobe:" + program + ":work value=arg1 unit=bytes",
		"usdt:" + program + ":shop:sold",
		"uprobe:" + program + ":outer period=5",
		"uprobe:" + program + ":nothing",
		"uprobe:" + program + "-not-there:work",
	})
	var sum uint64 // of the arguments
	for i := range uint64(calls) {
		sum += i % 10
	}
	require.EqualValues(t, calls, found["uprobe_work/count"].sum)
	require.EqualValues(t, sum, found["uprobe_work/bytes"].sum)
	require.EqualValues(t, calls, found["usdt_shop_sold/count"].sum)
	require.InDelta(t, calls, found["uprobe_outer/count"].sum, 5*8, "a period of each CPU may not be full")
	require.Zero(t, found["uprobe_outer/count"].sum%5)
	require.LessOrEqual(t, found["uprobe_outer/count"].samples, uint64(calls/5), "each stands for five hits")
	requireWhole(t, found)
	require.EqualValues(t, 4, stats.Attached)
	require.EqualValues(t, 2, stats.Failed)
	require.Zero(t, stats.Lost)
	require.Len(t, stats.Errors, 2, "%v", stats.Errors)

	found, stats = runProbed(t, program, []string{"uretprobe:" + program + ":work value=ret"})
	require.EqualValues(t, 2*sum, found["uretprobe_work/count"].sum)
	require.Empty(t, stats.Errors)
	requireWhole(t, found)
}

func compileProbed(t *testing.T) string {
	need.Tools(t, "gcc", "/usr/include/x86_64-linux-gnu/sys/sdt.h")
	return compileC(t, "testdata/probed.c", "hwprobed")
}

func compileC(t *testing.T, source, name string) string {
	program := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("gcc", "-O1", "-g", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestInts: an int is the lower half of its register, -1 means that the function has failed, and a value with a wrong
// upper half is dropped and counted.
func TestInts(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "the function is written in instructions of amd64")
	}
	program := compileC(t, "testdata/ints.c", "ints")
	var printed bytes.Buffer
	found, stats := runProbedTo(t, program, []string{"uretprobe:" + program + ":half value=ret:int unit=bytes"}, &printed)
	sum, err := strconv.ParseUint(strings.TrimSpace(printed.String()), 10, 64)
	require.NoError(t, err)
	require.Equal(t, sum, found["uretprobe_half/bytes"].sum)
	require.Zero(t, stats.Dropped)

	found, stats = runProbed(t, program, []string{"uretprobe:" + program + ":half value=ret unit=bytes"})
	require.Empty(t, found)
	require.EqualValues(t, calls, stats.Dropped)
}

// TestReplacedFile: after a probe's file is replaced, calls in both files are seen.
func TestReplacedFile(t *testing.T) {
	need.Root(t)
	program, update := compileProbed(t), compileProbed(t)
	s := openSampler(t)
	p, found := New(Options{}), map[string]*seen{}
	wanted := map[uint32]bool{}
	p.options = Options{
		Completer: s,
		Target:    func(pid uint32) (*target.Target, bool) { return nil, wanted[pid] },
		Use:       func(s *sampler.Sample) { add(found, s) },
	}
	defer p.Stop()
	link, err := Parse("uprobe:" + program + ":work")
	require.NoError(t, err)
	before := startProbed(t, program, nil)
	p.Update(Config{Probes: []Probe{link}, UserStacks: true})
	require.NoError(t, os.Rename(update, program))
	p.Retry()
	after := startProbed(t, program, nil)
	p.mu.Lock()
	wanted[before.pid], wanted[after.pid] = true, true
	p.mu.Unlock()
	before.finish(t)
	after.finish(t)
	p.Flush()
	require.EqualValues(t, 2*calls, found["uprobe_work/count"].sum)
	require.EqualValues(t, 1, p.Stats().Attached)
	require.Zero(t, p.Stats().Failed)

	require.NoError(t, os.Remove(program))
	p.Retry()
	require.EqualValues(t, 1, p.Stats().Attached, "processes may still run the file that was removed")
}

// requireWhole: all stacks of a probe are whole, and equally deep.
func requireWhole(t *testing.T, found map[string]*seen) {
	t.Helper()
	for name, of := range found {
		require.Equal(t, of.samples, of.whole, "%s: whole stacks", name)
		require.Equal(t, slices.Min(of.depth), slices.Max(of.depth), "%s: depth", name)
	}
}

// TestKernelEvents: tracepoints are found where tracefs is not mounted, and software events are counted as the kernel
// does.
func TestKernelEvents(t *testing.T) {
	need.Root(t)
	program := compileProbed(t)
	found, stats := runProbed(t, program, []string{
		"tracepoint:sched:sched_process_exit", "tracepoint:sched:no_such_thing",
	})
	require.EqualValues(t, 1, stats.Attached, "%v", stats.Errors)
	require.Len(t, stats.Errors, 1, "%v", stats.Errors)
	for text := range stats.Errors {
		require.Contains(t, text, "this kernel has no tracepoint sched:no_such_thing")
	}
	require.Contains(t, found, "tracepoint_sched_sched_process_exit/count")
	require.EqualValues(t, 1, found["tracepoint_sched_sched_process_exit/count"].sum)
	const sleeps = calls / 10
	testkit.Eventually(t, "the sleeps are seen, unless other programs fill the buffer", func() bool {
		found, stats = runProbed(t, program, []string{"software:context-switches"})
		require.EqualValues(t, 1, stats.Attached, "%v", stats.Errors)
		of := found["software_context_switches/count"]
		if stats.Lost == 0 {
			require.NotNil(t, of)
			require.GreaterOrEqual(t, of.sum, uint64(sleeps))
		}
		return of != nil && of.sum >= sleeps
	})
}

// runProbed runs the program with probes, and returns the results of each by the name and unit of its kind.
func runProbed(t *testing.T, program string, links []string) (map[string]*seen, Stats) {
	t.Helper()
	return runProbedTo(t, program, links, nil)
}

// runProbedTo is runProbed of a program that prints to out.
func runProbedTo(t *testing.T, program string, links []string, out io.Writer) (map[string]*seen, Stats) {
	t.Helper()
	s := openSampler(t)
	running := startProbed(t, program, out)
	found := map[string]*seen{}
	p := New(Options{
		Completer: s,
		Target:    func(of uint32) (*target.Target, bool) { return nil, of == running.pid },
		Use:       func(s *sampler.Sample) { add(found, s) },
	})
	defer p.Stop()
	c := Config{UserStacks: true, KernelStacks: true}
	for _, link := range links {
		parsed, err := Parse(link)
		require.NoError(t, err)
		c.Probes = append(c.Probes, parsed)
	}
	p.Update(c)
	running.finish(t)
	p.Flush()
	stats := p.Stats()
	p.Update(Config{})
	require.Zero(t, p.Stats().Attached)
	return found, stats
}

// openSampler returns a Sampler that runs until the test ends.
func openSampler(t *testing.T) *sampler.Sampler {
	t.Helper()
	s, err := sampler.Open(sampler.Options{TableBytes: 4 << 20, Patience: time.Minute})
	s = need.Opened[*kernel.PermissionError](t, s, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx, func(*sampler.Sample) error { return nil }) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return s
}

// process waits for a byte before it makes its calls.
type process struct {
	*exec.Cmd
	pid   uint32
	stdin io.Writer
}

func startProbed(t *testing.T, program string, out io.Writer) *process {
	t.Helper()
	cmd := exec.Command(program, strconv.Itoa(calls))
	cmd.Stdout = out
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &process{cmd, uint32(cmd.Process.Pid), stdin}
}

// finish lets the process make its calls, and end.
func (p *process) finish(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.stdin, "x")
	require.NoError(t, err)
	require.NoError(t, p.Wait())
}

func add(found map[string]*seen, s *sampler.Sample) {
	info := kind.Of(s.Kind)
	name := info.Series + "/" + info.Values[0].Unit
	if found[name] == nil {
		found[name] = &seen{}
	}
	of := found[name]
	of.samples++
	of.sum += s.Value
	if s.Outcome.Complete() {
		of.whole++
	}
	of.depth = append(of.depth, len(s.User))
}

// TestSteppedInstruction: where the CPU single-steps a copy of a probed instruction, the function is the leaf, and not
// the page of copies, which belongs to no code.
func TestSteppedInstruction(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	if runtime.GOARCH != "amd64" {
		need.Missing(t, "the function is written in instructions of amd64")
	}
	program := compileC(t, "testdata/stepped.c", "stepped")
	s, err := sampler.Open(sampler.Options{TableBytes: 4 << 20, Patience: time.Minute})
	s = need.Opened[*kernel.PermissionError](t, s, err)
	require.NoError(t, s.Configure(sampler.Config{SampleRate: 997, UserStacks: true, TableBytes: 4 << 20}))
	cmd := exec.Command(program)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var mu sync.Mutex
	var samples, inStep, elsewhere int
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = s.Run(ctx, func(sample *sampler.Sample) error {
			if sample.PID != uint32(cmd.Process.Pid) || len(sample.User) == 0 {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			samples++
			if sample.User[0].Exe == 0 {
				elsewhere++
			} else if sample.Outcome.Complete() && len(sample.User) > 3 {
				inStep++
			}
			return nil
		})
	})
	p := New(Options{
		Completer: s, Use: func(*sampler.Sample) {},
		Target: func(uint32) (*target.Target, bool) { return nil, false },
	})
	link, err := Parse("uprobe:" + program + ":step period=1000000")
	require.NoError(t, err)
	p.Update(Config{Probes: []Probe{link}, UserStacks: true})
	require.Empty(t, p.Stats().Errors)
	testkit.Eventually(t, "300 samples are taken in the function", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return inStep >= 300
	})
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	p.Stop()
	stop()
	running.Wait()
	require.LessOrEqual(t, elsewhere, samples/100, "of %d samples: those of before the program was known", samples)
}
