package heap

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// wrapper is a library whose allocator calls the next one.
const wrapper = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
static void *(*next_malloc)(size_t), *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
long calls;
__attribute__((constructor)) static void find(void)
{
	next_malloc = dlsym(RTLD_NEXT, "malloc");
	next_realloc = dlsym(RTLD_NEXT, "realloc");
	next_free = dlsym(RTLD_NEXT, "free");
}
void *malloc(size_t n)
{
	if (!next_malloc)
		find();
	void *block = next_malloc(n);
	calls++;
	return block;
}
void *realloc(void *old, size_t n)
{
	if (!next_realloc)
		find();
	void *block = next_realloc(old, n);
	calls++;
	return block;
}
void free(void *block)
{
	if (!next_free)
		find();
	next_free(block);
	calls++;
}
`

// TestMemoryInUse: a program allocates by all functions of C, and frees most of the memory. As much is in use as its
// allocator says, with whole stacks; with the C library, with one inside of the program, and with allocators that call
// the one of the C library. After the program has ended, no memory is in use.
func TestMemoryInUse(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	for name, flags := range map[string][]string{"shared": nil, "static": {"-static"}} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "hwleaks")
			args := append([]string{"-O1", "-g", "-pthread", "-o", program}, flags...)
			out, err := exec.Command("gcc", append(args, "../../../integration/tools/testdata/leaks.c")...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			checkLeak(t, program)
		})
	}
	program := filepath.Join(t.TempDir(), "hwleaks")
	out, err := exec.Command("gcc", "-O1", "-g", "-pthread", "-o", program,
		"../../../integration/tools/testdata/leaks.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	library := filepath.Join(t.TempDir(), "wrapper.so")
	cmd := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-o", library, "-")
	cmd.Stdin = strings.NewReader(wrapper)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Run("wrapper", func(t *testing.T) { checkLeak(t, program, "LD_PRELOAD="+library) })
}

// TestMimalloc: memory that a program keeps is in use, whichever of mimalloc's own functions allocated it.
func TestMimalloc(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc", "/usr/include/mimalloc.h")
	program := filepath.Join(t.TempDir(), "hwmimalloc")
	out, err := exec.Command("gcc", "-O1", "-g", "-o", program, "testdata/mimalloc.c", "-lmimalloc").CombinedOutput()
	require.NoError(t, err, "%s", out)
	functions := []string{"malloc_aligned", "malloc_aligned64", "zalloc_aligned", "zalloc", "plain", "array", "cleared",
		"grown", "regrown", "rearray", "operator", "heaped", "heaped_array", "heaped_grown", "heaped_rearray"}
	const each = 24 << 20
	sum := func(functions ...string) (bytes uint64) {
		s := openSampler(t)
		cmd := exec.Command(program, functions...)
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it says that it was killed
		}()
		p := New(Options{
			Sampler: s,
			Target:  func(of uint32) (*target.Target, bool) { return nil, of == uint32(cmd.Process.Pid) },
			Use:     func(s *sampler.Sample) { bytes += s.Value },
		})
		defer p.Close()
		s.observe.Store(p)
		require.NoError(t, p.Update(Config{SampleBytes: 64 << 10, UserStacks: true}))
		testkit.Eventually(t, "the program's allocator is found", func() bool { return p.Stats().Files > 0 })
		_, err = io.WriteString(stdin, "x")
		require.NoError(t, err)
		_, err = bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err)
		p.Flush()
		require.Empty(t, p.Stats().Errors)
		return bytes
	}
	// Each has 630 blocks, of which a quarter is not sampled: all together are right to within 1 %, each to within 4 %.
	all := sum(append(functions, "churn")...)
	t.Logf("%.1f of %d MiB", float64(all)/(1<<20), len(functions)*each>>20)
	if want := float64(len(functions) * each); float64(all) > want*0.97 && float64(all) < want*1.03 {
		return
	}
	for _, f := range functions {
		if got := float64(sum(f)); got < each*0.8 || got > each*1.2 {
			t.Errorf("%s: %.1f MiB are in use, it has kept %d", f, got/(1<<20), each>>20)
		}
	}
	t.Errorf("%.1f MiB are in use, of %d MiB", float64(all)/(1<<20), len(functions)*each>>20)
}

// checkLeak runs the program with further variables of the environment.
func checkLeak(t *testing.T, program string, env ...string) {
	const sampleBytes = 64 << 10
	s := openSampler(t)
	cmd := exec.Command(program, "wait")
	cmd.Env = append(os.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
	}()
	pid := uint32(cmd.Process.Pid)

	var sum, blocks, whole uint64
	p := New(Options{
		Sampler: s,
		Target:  func(of uint32) (*target.Target, bool) { return nil, of == pid },
		Use: func(s *sampler.Sample) {
			sum, blocks = sum+s.Value, blocks+1
			if s.Outcome.Complete() {
				whole++
			}
		},
	})
	defer p.Close()
	s.observe.Store(p)
	require.NoError(t, p.Update(Config{SampleBytes: sampleBytes, UserStacks: true}))
	testkit.Eventually(t, "the program's allocator is found", func() bool { return p.Stats().Files > 0 })
	require.Empty(t, p.Stats().Errors)
	_, err = io.WriteString(stdin, "x")
	require.NoError(t, err)
	var want uint64
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscanf(line, "%d bytes in use", &want)
	require.NoError(t, err)

	p.Flush()
	stats := p.Stats()
	require.Empty(t, stats.Errors)
	t.Logf("%d bytes in use, the program says %d; %d blocks of %d sampled, missed %v", sum, want, blocks, stats.Samples,
		stats.Missed)
	require.Equal(t, blocks, stats.Blocks)
	require.Equal(t, sum, stats.Bytes)
	require.Equal(t, blocks, whole, "stacks are whole")
	require.Greater(t, stats.Samples, 2*blocks, "most blocks that were sampled are freed")
	missed := uint64(0) // where other programs have filled the buffer
	for _, n := range stats.Missed {
		missed += n * sampleBytes
	}
	if sum+missed < want*3/4 || sum > want*5/4 { // 640 blocks: six standard deviations
		t.Errorf("%d bytes are in use, and at most %d were missed, the program says %d", sum, missed, want)
	}

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it says that it was killed
	sum = 0
	p.Flush()
	require.Zero(t, sum, "in use by a program that has ended")
	require.Zero(t, p.Stats().Blocks)
}

// running is a sampler that hands its records to a Profiler.
type running struct {
	*sampler.Sampler
	observe observer
}

// observer is a Profiler that is set later.
type observer struct {
	mu sync.Mutex
	p  *Profiler
}

func (o *observer) Store(p *Profiler) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.p = p
}

func (o *observer) use(r *kernel.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.p != nil {
		o.p.Observe(r)
	}
}

// openSampler runs a sampler that takes no samples of its own until the test ends.
func openSampler(t *testing.T) *running {
	t.Helper()
	out := &running{}
	s, err := sampler.Open(sampler.Options{
		TableBytes: 4 << 20, Observe: out.observe.use, Patience: time.Minute,
	})
	require.NoError(t, err)
	out.Sampler = s
	ctx, stop := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { _ = s.Run(ctx, func(*sampler.Sample) error { return nil }) })
	t.Cleanup(func() {
		stop()
		loop.Wait()
		_ = s.Close()
	})
	return out
}

// TestSlowedProgramIsPaused: a program that does little but allocate is not slowed down for long, and Stats says why
// its memory is missing, whether at first all programs of the C library have probes or only this one.
func TestSlowedProgramIsPaused(t *testing.T) {
	need.Root(t)
	for name, each := range map[string]bool{"each process": true, "all processes": false} {
		t.Run(name, func(t *testing.T) {
			const calls = 20_000
			program := startPairs(t)
			free := program.measure(t, calls)
			s := openSampler(t)
			p := New(Options{
				Sampler: s, Use: func(*sampler.Sample) {},
				Target: func(of uint32) (*target.Target, bool) { return nil, of == program.pid },
			})
			defer p.Close()
			c := Config{SampleBytes: 64 << 10, UserStacks: true, Each: each}
			require.NoError(t, p.Update(c)) // without a limit at first
			c.Limit = DefaultLimit
			require.NoError(t, p.Update(c))
			require.Positive(t, p.brake.trap.emulated)
			require.LessOrEqual(t, p.brake.trap.emulated, p.brake.trap.stepped)
			require.Less(t, p.brake.trap.stepped, time.Millisecond)
			testkit.Eventually(t, "the program is paused", func() bool {
				program.measure(t, calls)
				for _, paused := range p.Stats().Paused { // other programs of the host may be paused, too
					if paused.PID == program.pid {
						return assert.Greater(t, paused.Share, DefaultLimit)
					}
				}
				return false
			})
			testkit.Eventually(t, "the program is as fast as without probes", func() bool {
				return program.measure(t, calls) < 20*free // a trap takes some hundred times as long
			})
			require.Zero(t, p.Stats().Blocks, "what it frees is not seen")
			require.Empty(t, p.Stats().Errors)
		})
	}
}
