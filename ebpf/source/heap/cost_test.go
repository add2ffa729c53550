package heap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/record"
)

// cost is the time of a malloc and a free, in ns of CPU time, once for each round.
type cost struct {
	Pair []float64 `json:"ns"`
}

// pairs is a program that measures how long a malloc and a free take.
type pairs struct {
	in  io.Writer
	out *bufio.Reader
	pid uint32
}

func startPairs(t *testing.T) *pairs {
	t.Helper()
	need.Tools(t, "gcc")
	program := filepath.Join(t.TempDir(), "hwpairs")
	out, err := exec.Command("gcc", "-O1", "-o", program, "testdata/pairs.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // the results were read
	})
	return &pairs{stdin, bufio.NewReader(stdout), uint32(cmd.Process.Pid)}
}

// measure returns the time of a malloc and a free now, in ns of CPU time: the mean of that many calls.
func (p *pairs) measure(t *testing.T, calls int) float64 {
	t.Helper()
	_, err := fmt.Fprintln(p.in, calls)
	require.NoError(t, err)
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	ns, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	require.NoError(t, err)
	return ns
}

// TestCost shows the cost of calls of malloc and free in a program whose memory is sampled, and in one that only runs
// the same C library. HEADWATER_HEAP_COSTS is how often each is measured.
func TestCost(t *testing.T) {
	testkit.Nightly(t, "it measures; TestMemoryInUse samples")
	need.Root(t)
	rounds, calls := 2, 20_000 // of each function
	if n, err := strconv.Atoi(os.Getenv("HEADWATER_HEAP_COSTS")); err == nil {
		rounds, calls = n, 100_000
	}
	save := record.Test(t, "heap", fmt.Sprintf("make -C integration bench-heap ROUNDS=%d RECORD=1", rounds))
	found := map[string]*cost{"without": {}, "sampled": {}, "of another program": {}}
	program := startPairs(t)
	program.measure(t, calls)
	s := openSampler(t)
	for range rounds {
		measureCosts(t, s, program, calls, found)
	}
	const trap = 500 // ns: a call with a probe takes longer, one without takes less
	switch without, sampled := slices.Min(found["without"].Pair), slices.Min(found["sampled"].Pair); {
	case without > trap:
		t.Logf("another profiler has probes in the C library: %v ns without those of this one", without)
	case sampled <= without:
		t.Errorf("probes cost nothing: %v and %v ns", found["sampled"].Pair, found["without"].Pair)
	}
	save(found)
}

func measureCosts(t *testing.T, s *running, program *pairs, calls int, found map[string]*cost) {
	t.Helper()
	note := func(name string) {
		ns := program.measure(t, calls)
		t.Logf("%-20s %8.1f ns for a malloc and a free", name, ns)
		found[name].Pair = append(found[name].Pair, ns)
	}
	note("without")
	var wanted atomic.Uint32
	wanted.Store(program.pid)
	p := New(Options{
		Sampler: s, Early: true, Use: func(*sampler.Sample) {},
		Target: func(of uint32) (*target.Target, bool) { return nil, of == wanted.Load() },
	})
	defer p.Close()
	require.NoError(t, p.Update(Config{SampleBytes: 512 << 10, UserStacks: true}))
	require.NotZero(t, p.Stats().Files)
	testkit.Eventually(t, "the program is sampled", func() bool { // once it has mapped its C library
		program.measure(t, 10_000)
		p.mu.Lock()
		p.readSamples()
		p.mu.Unlock()
		return p.Stats().Samples > 0
	})
	note("sampled")
	wanted.Store(0)
	testkit.Eventually(t, "a sample of the program is seen, and it is ignored", func() bool {
		program.measure(t, 10_000)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.readSamples()
		return p.ignored[program.pid]
	})
	note("of another program")
}
