package stacks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// sharedRate is how many samples a second the shared profiler takes of each CPU. It is below the limit of stack
// copies a second.
const sharedRate = 249

// copyParts are the components that profile one dd, by name: with both parts of the stack, with only the user's and
// with only the kernel's.
var copyParts = map[string]string{
	"both":   "",
	"user":   "collect_kernel_profile = false",
	"kernel": "collect_user_profile = false",
}

// earlyProgram is a program that was busy before the shared profiler was started. It is stopped until its test
// lets it run.
type earlyProgram struct {
	*rig.Process
	dir string // where it was built
}

// sharedProfiler is a profiler of the whole host for all tests that only look at stacks.
type sharedProfiler struct {
	*rig.Headwater
	receiver *rig.Receiver
	early    map[string]earlyProgram

	mu     sync.Mutex
	read   map[string]int                      // how many profiles of a service are in stacks
	stacks map[[2]string]map[string]*rig.Stack // by service and command, then by their frames
}

var shared struct {
	once     sync.Once
	profiler *sharedProfiler
}

// sharedHost returns the shared profiler. The first test starts it; it ends with the package's tests.
func sharedHost(t testing.TB) *sharedProfiler {
	t.Helper()
	need.Root(t)
	need.Tools(t, "gcc", "dd")
	shared.once.Do(func() { shared.profiler = startShared(rig.SharedT{TB: t}) })
	p := shared.profiler
	if p == nil {
		t.Fatal("the shared profiler could not be started: the first test that wanted it says why")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the shared profiler's output ends with\n%s", p.Output.Tail(40))
		}
	})
	return p
}

// startShared starts the shared profiler, after all programs that must run before it.
func startShared(t rig.SharedT) *sharedProfiler {
	p := newProfiler(t, rules())
	chain := rig.ChainProgram(t, earlyChain)
	p.pause(t, earlyChain, earlyProgram{rig.StartChain(t, chain, 3600), filepath.Dir(chain)})
	p.pause(t, "dd", earlyProgram{rig.StartCopy(t), ""})
	config := ""
	for name, setting := range copyParts {
		config += fmt.Sprintf(`
pyroscope.ebpf "%[1]s" {
	forward_to       = [pyroscope.write.server.receiver]
	targets          = [{"__process_pid__" = "%[2]d", "service_name" = "dd-%[1]s"}]
	collect_interval = "1s"
	sample_rate      = %[3]d
	%[4]s
}
`, name, p.early["dd"].PID(), sharedRate, setting)
	}
	p.start(t, config)
	return p
}

// newProfiler returns a profiler that has not been started. The rules' early programs already run.
func newProfiler(t testing.TB, all []rule) *sharedProfiler {
	t.Helper()
	p := &sharedProfiler{
		receiver: rig.StartReceiver(t),
		early:    map[string]earlyProgram{},
		read:     map[string]int{},
		stacks:   map[[2]string]map[string]*rig.Stack{},
	}
	rig.Binary(t) // is built before anything runs
	for _, r := range all {
		if r.early == nil {
			continue
		}
		dir := t.TempDir()
		program := earlyProgram{rig.Start(t, r.start(t, dir)), dir}
		testkit.Eventually(t, r.name+" is ready", func() bool { return r.early(t, program.PID()) })
		p.pause(t, r.name, program)
	}
	return p
}

// start starts the profiler of the whole host, and what config adds to it.
func (p *sharedProfiler) start(t testing.TB, config string) {
	t.Helper()
	host := strings.NewReplacer("= 97", fmt.Sprint("= ", sharedRate), `"2s"`, `"1s"`).Replace(
		rig.HostConfig(p.receiver.URL, "host", ""))
	p.Headwater = rig.LaunchHeadwater(t, host+config, nil)
	p.Headwater.Prioritize(t)
	p.WaitReady(t)
	testkit.Eventually(t, "the profiler takes samples", func() bool { return len(p.receiver.Profiles("host")) > 0 })
}

// pause stops a program once it is busy.
func (p *sharedProfiler) pause(t testing.TB, name string, program earlyProgram) {
	t.Helper()
	program.WaitBusy(t)
	program.Signal(t, syscall.SIGSTOP)
	p.early[name] = program
}

// run continues a program that was busy before the profiler started.
func (p *sharedProfiler) run(t testing.TB, name string) earlyProgram {
	t.Helper()
	program := p.early[name]
	program.Signal(t, syscall.SIGCONT)
	t.Cleanup(func() { program.Kill(t) })
	return program
}

// lostSamples returns how many samples the profiler has lost so far, by its own count.
func (p *sharedProfiler) lostSamples(t testing.TB) float64 {
	t.Helper()
	return p.Metrics(t).Sum(t, "pyroscope_ebpf_samples_lost_total")
}

// of returns the stacks that have arrived so far of the processes of one name, the most expensive first.
func (p *sharedProfiler) of(service, command string) []rig.Stack {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, profile := range p.receiver.Profiles(service)[p.read[service]:] {
		p.read[service]++
		for _, s := range rig.Stacks(profile) {
			of, text := [2]string{service, s.Frames[0].Name}, fmt.Sprint(s.Frames, s.Functions)
			if p.stacks[of] == nil {
				p.stacks[of] = map[string]*rig.Stack{}
			}
			if known := p.stacks[of][text]; known != nil {
				known.Value += s.Value
			} else {
				p.stacks[of][text] = &s
			}
		}
	}
	var found []rig.Stack
	for _, s := range p.stacks[[2]string{service, command}] {
		found = append(found, *s)
	}
	slices.SortFunc(found, func(a, b rig.Stack) int { return int(b.Value - a.Value) })
	return found
}

// until waits for so much CPU time of the processes of one name, and returns their stacks.
func (p *sharedProfiler) until(t testing.TB, command string, enough time.Duration) (all []rig.Stack) {
	t.Helper()
	return p.untilOf(t, "host", command, enough)
}

func (p *sharedProfiler) untilOf(t testing.TB, service, command string, enough time.Duration) (all []rig.Stack) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%v of %s of service %s have arrived", enough, command, service), func() bool {
		all = p.of(service, command)
		return rig.Total(all) >= enough.Nanoseconds()
	})
	return all
}

// untilNow waits until all samples taken so far have arrived: until there is a profile that starts later.
func (p *sharedProfiler) untilNow(t testing.TB) {
	t.Helper()
	now := time.Now().UnixNano()
	testkit.Eventually(t, "a profile has arrived that begins now", func() bool {
		profiles := p.receiver.Profiles("host")
		return len(profiles) > 0 && profiles[len(profiles)-1].TimeNanos > now
	})
}
