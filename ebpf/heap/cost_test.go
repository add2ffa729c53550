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

	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/ebpf/target"
	"github.com/headwater/headwater/integration/record"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/retry"
)

// cost is what a malloc and a free take, in ns, once in each round.
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
		_ = cmd.Wait() // what matters was read
	})
	return &pairs{stdin, bufio.NewReader(stdout), uint32(cmd.Process.Pid)}
}

// measure returns what a malloc and a free take now, in ns.
func (p *pairs) measure(t *testing.T) float64 {
	t.Helper()
	_, err := io.WriteString(p.in, "x")
	require.NoError(t, err)
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	ns, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	require.NoError(t, err)
	return ns
}

// TestCost shows what calls of malloc and free cost a program whose memory is sampled, and one that only runs the same
// C library. HEADWATER_HEAP_COSTS is how often each is measured.
func TestCost(t *testing.T) {
	need.Root(t)
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("HEADWATER_HEAP_COSTS")); err == nil {
		rounds = n
	}
	save := record.Test(t, "heap", fmt.Sprintf("make -C integration bench-heap ROUNDS=%d RECORD=1", rounds))
	found := map[string]*cost{"without": {}, "sampled": {}, "of another program": {}}
	program := startPairs(t)
	program.measure(t)
	retry.Run(t, func(t *retry.T) {
		s := openSampler(t)
		for range rounds {
			measureCosts(t, s, program, found)
		}
		if slices.Min(found["sampled"].Pair) <= slices.Min(found["without"].Pair) {
			t.Errorf("probes cost nothing: %v and %v ns", found["sampled"].Pair, found["without"].Pair)
		}
	})
	save(found)
}

func measureCosts(t *retry.T, s *running, program *pairs, found map[string]*cost) {
	t.Helper()
	note := func(name string) {
		ns := program.measure(t.T)
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
	note("sampled")
	require.NotZero(t, p.Stats().Samples)
	wanted.Store(0)
	program.measure(t.T) // until one sample of it is seen, and it is ignored
	p.mu.Lock()
	p.read()
	ignored := p.ignored[program.pid]
	p.mu.Unlock()
	require.True(t, ignored)
	note("of another program")
}
