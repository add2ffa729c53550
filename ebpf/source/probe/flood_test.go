package probe

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestFloodOfOthers: hits of a process without a target take no room from hits of a process with one.
func TestFloodOfOthers(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	program := compileC(t, "testdata/flood.c", "flood")
	for _, link := range []string{
		"uprobe:" + program + ":work", "uprobe:" + program + ":work period=3", "uretprobe:" + program + ":work",
		"unsafe-uretprobe:" + program + ":work", "software:minor-faults",
	} {
		t.Run(strings.ReplaceAll(link, program, ""), func(t *testing.T) {
			parsed, err := Parse(link)
			require.NoError(t, err)
			s := openSampler(t)
			other, wanted := startFlood(t, program), startFlood(t, program)
			var sum, others uint64 // others are the hits of the other process that are read
			p := New(Options{
				Completer: s,
				Target: func(pid uint32) (*target.Target, bool) {
					if pid == other.pid {
						others++
					}
					return nil, pid == wanted.pid
				},
				Use: func(s *sampler.Sample) { sum += s.Value },
			})
			defer p.Stop()
			p.Update(Config{Probes: []Probe{parsed}, UserStacks: true})
			require.Empty(t, p.Stats().Errors)
			read := func(of *uint64) uint64 {
				p.Flush()
				p.mu.Lock()
				defer p.mu.Unlock()
				return *of
			}
			testkit.Eventually(t, "the other process is seen", func() bool {
				other.calls(t, 10)
				return read(&others) > 0
			})
			const few = 50
			p.mu.Lock() // until Unlock, the prober reads no hit
			sum, others = 0, 0
			if parsed.Type == "software" { // all programs have such hits, so the buffers may be full
				p.mu.Unlock()
				other.calls(t, 5000)
				require.Zero(t, read(&others))
				testkit.Eventually(t, "the hits are seen", func() bool { wanted.calls(t, few); return read(&sum) >= few })
				return
			}
			other.calls(t, 50_000)
			wanted.calls(t, few)
			p.mu.Unlock()
			require.InDelta(t, few, read(&sum), float64((parsed.Period-1)*uint64(runtime.NumCPU())))
			require.Zero(t, read(&others))
		})
	}
}

// TestLostHits: each hit is a sample or counts as lost, also a hit after which none had room.
func TestLostHits(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	var host unix.Utsname
	require.NoError(t, unix.Uname(&host))
	if release := unix.ByteSliceToString(host.Release[:]); release[0] < '6' {
		need.Missing(t, "Linux 6.0, which counts lost records by event")
	}
	program := compileC(t, "testdata/flood.c", "flood")
	link, err := Parse("uprobe:" + program + ":work")
	require.NoError(t, err)
	running := startFlood(t, program)
	var samples uint64
	p := New(Options{
		Completer: openSampler(t),
		Target:    func(pid uint32) (*target.Target, bool) { return nil, pid == running.pid },
		Use:       func(*sampler.Sample) { samples++ },
	})
	defer p.Stop()
	p.Update(Config{Probes: []Probe{link}, UserStacks: true})
	const calls = 20_000
	for n := uint64(1); n <= 3; n++ {
		p.mu.Lock() // until Unlock, the prober reads no hit
		running.calls(t, calls)
		p.mu.Unlock()
		p.Flush()
		lost := p.Stats().Lost
		require.NotZero(t, lost)
		require.Equal(t, n*calls, samples+lost)
	}
	p.Update(Config{})
	require.Equal(t, uint64(3*calls), samples+p.Stats().Lost, "without the probe")
}

// TestLostOfTargets: a target that floods the buffers and another one each know how many of their hits were lost.
func TestLostOfTargets(t *testing.T) {
	need.Root(t)
	need.Tools(t, "gcc")
	program := compileC(t, "testdata/flood.c", "flood")
	link, err := Parse("uprobe:" + program + ":work")
	require.NoError(t, err)
	calls := map[string]int{"busy": 20_000, "calm": 50, "late": 30}
	running, services := map[string]*flood{}, map[uint32]string{}
	var found []map[string]string
	for service := range calls {
		f := startFlood(t, program)
		running[service], services[f.pid] = f, service
		found = append(found, map[string]string{target.LabelProcessPID: fmt.Sprint(f.pid), "service_name": service})
	}
	finder := target.NewFinder(target.Options{Targets: found})
	samples := map[string]int{}
	p := New(Options{
		Completer: openSampler(t),
		Target: func(pid uint32) (*target.Target, bool) {
			of := finder.Find(pid)
			return of, services[pid] != ""
		},
		Use: func(s *sampler.Sample) { samples[services[s.PID]]++ },
	})
	defer p.Stop()
	p.Update(Config{Probes: []Probe{link}, UserStacks: true})
	check := func(rounds int) {
		lost := p.Stats().LostOf
		for service, n := range calls {
			require.Equal(t, rounds*n, samples[service]+int(lost[service]), "%s: %d samples, lost %v", service,
				samples[service], lost)
		}
		require.NotZero(t, lost["busy"])
		require.Less(t, lost["calm"], lost["busy"])
	}
	round := func() {
		running["calm"].calls(t, calls["calm"])
		running["busy"].calls(t, calls["busy"])
		running["late"].calls(t, calls["late"]) // when the buffers are full
	}
	for n := 1; n <= 2; n++ {
		p.mu.Lock() // until Unlock, the prober reads no hit
		round()
		p.mu.Unlock()
		p.Flush()
		check(n)
	}
	round() // the prober may read hits during this round
	p.Stop()
	check(3)
}

// flood is a process that calls a function as often as it is told.
type flood struct {
	pid   uint32
	stdin io.Writer
	lines *bufio.Scanner
}

func startFlood(t *testing.T, program string) *flood {
	t.Helper()
	cmd := exec.Command(program)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		require.NoError(t, cmd.Wait())
	})
	return &flood{uint32(cmd.Process.Pid), stdin, bufio.NewScanner(stdout)}
}

// calls has the process call its function, and waits until it has.
func (f *flood) calls(t *testing.T, n int) {
	t.Helper()
	_, err := fmt.Fprintln(f.stdin, n)
	require.NoError(t, err)
	require.True(t, f.lines.Scan(), "the process has ended: %v", f.lines.Err())
	require.Equal(t, fmt.Sprint(n), f.lines.Text())
}

// TestTwoProbesOfATracepoint: the kernel counts a hit of two probes of one tracepoint once, so only the losses of the
// first one are told by target.
func TestTwoProbesOfATracepoint(t *testing.T) {
	need.Root(t)
	const link = "tracepoint:sched:sched_process_exit"
	var probes []Probe
	for _, text := range []string{link, link + " name=exits"} {
		parsed, err := Parse(text)
		require.NoError(t, err)
		probes = append(probes, parsed)
	}
	var hits uint64
	p := New(Options{
		Completer: openSampler(t), Target: func(uint32) (*target.Target, bool) { return nil, true },
		Use: func(s *sampler.Sample) { hits += s.Value },
	})
	defer p.Stop()
	p.Update(Config{Probes: probes, UserStacks: true})
	stats := p.Stats()
	require.NoError(t, stats.Failure)
	require.EqualValues(t, 1, stats.Uncounted)
	const programs = 20
	for range programs {
		require.NoError(t, exec.Command("true").Run())
	}
	p.Flush()
	stats = p.Stats()
	require.GreaterOrEqual(t, hits, uint64(2*programs))
	require.Equal(t, stats.Lost, stats.LostOfTargets())
	p.Update(Config{Probes: probes[:1], UserStacks: true})
	p.Update(Config{Probes: probes[1:], UserStacks: true})
	require.EqualValues(t, 1, p.Stats().Uncounted, "the first probe is gone, and the hits of the second one are counted")
}
