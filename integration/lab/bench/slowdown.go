package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// The cost of a profiler is more than its own CPU time and the run time of its BPF programs: the profiled programs pay
// for interrupts, for the kernel's records of new processes and mappings, and for cold caches. So programs that always
// do the same work run with and without each profiler, in turn, and their times are compared.

// fixedWork is work that always takes the same time, except for influences of the machine.
type fixedWork struct {
	key, title string
	commands   func() []*exec.Cmd
}

// expense is the time of one run of a fixed work.
type expense struct{ cpu, wall float64 } // seconds

// slowedDown are the expenses of a fixed work, by condition, by round.
type slowedDown struct {
	Key   string               `json:"key"`
	Title string               `json:"title"`
	CPU   map[string][]float64 `json:"cpu_seconds"`
	Wall  map[string][]float64 `json:"wall_seconds"`
}

// Conditions without a profiler: the baseline, and a repetition of it, which shows the size of meaningless differences.
const (
	alone   = "none"
	control = "none, again"
)

const (
	deepFrames  = 61
	deepLoops   = 12_000_000 // of the leaf of the chain program
	stormLength = 3000       // processes per CPU
)

func (b *bench) fixedWorks() []fixedWork {
	works := []fixedWork{
		{"deep", fmt.Sprintf("%d frames on each CPU", deepFrames), func() []*exec.Cmd {
			return onEachCPU(func(int) *exec.Cmd { return exec.Command(b.chains[deepFrames], fmt.Sprintf("x%d", deepLoops)) })
		}},
		{"exec", fmt.Sprintf("%d times /bin/true on each CPU", stormLength), func() []*exec.Cmd {
			return onEachCPU(func(int) *exec.Cmd {
				return exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done",
					stormLength))
			})
		}},
	}
	if b.clang == "" {
		return works
	}
	return append(works, fixedWork{"build", "clang -O2 of two files on each CPU", func() []*exec.Cmd {
		return onEachCPU(func(cpu int) *exec.Cmd { return exec.Command("sh", "-c", b.compile("containers text", cpu)) })
	}})
}

func onEachCPU(command func(cpu int) *exec.Cmd) (commands []*exec.Cmd) {
	for cpu := range runtime.NumCPU() {
		commands = append(commands, command(cpu))
	}
	return commands
}

// runOnce does the work and returns its time. The CPU time includes all descendants.
func (w fixedWork) runOnce() (e expense, err error) {
	commands := w.commands()
	begin := time.Now()
	for _, cmd := range commands {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if startErr := cmd.Start(); startErr != nil && err == nil {
			err = startErr
		}
	}
	for _, cmd := range commands {
		if cmd.Process == nil {
			continue
		}
		if waitErr := cmd.Wait(); waitErr != nil && err == nil {
			err = fmt.Errorf("%v: %w", cmd.Args, waitErr)
			continue
		}
		e.cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	e.wall = time.Since(begin).Seconds()
	return e, err
}

// measureSlowdown runs fixed works in each condition, in rounds, with a different order in each round.
func (b *bench) measureSlowdown(works []fixedWork, progress func() error) error {
	if b.slowRounds == 0 || !b.only.MatchString("slow-down") {
		return nil
	}
	conditions := []string{alone, control}
	for _, p := range b.profilers {
		conditions = append(conditions, p.name)
	}
	begin := time.Now()
	defer func() { b.took["slow-down"] = time.Since(begin).Seconds() }()
	for _, w := range works {
		if _, err := w.runOnce(); err != nil { // warm the caches
			return err
		}
		b.slowed = append(b.slowed, slowedDown{w.key, w.title, map[string][]float64{}, map[string][]float64{}})
	}
	for round := range b.slowRounds {
		for place := range conditions {
			condition := conditions[inTurn(round, place, len(conditions))]
			fmt.Fprintf(os.Stderr, "slow-down, round %d of %d: %s\n", round+1, b.slowRounds, condition)
			if err := b.slowdownBy(condition, works); err != nil {
				return fmt.Errorf("slow-down, %s: %w", condition, err)
			}
		}
		if err := progress(); err != nil {
			return err
		}
	}
	return nil
}

// inTurn returns the item at a place in a round, so that over the rounds each of n items has each place, and not always
// the same predecessor.
func inTurn(round, place, n int) int {
	i := (round + place) % n
	if round/n%2 == 1 {
		return n - 1 - i
	}
	return i
}

// slowdownBy runs the works in one condition.
func (b *bench) slowdownBy(condition string, works []fixedWork) error {
	for i, p := range b.profilers {
		if p.name != condition {
			continue
		}
		running, err := b.launchUncounted(i)
		if err != nil {
			return err
		}
		defer running.stopProfiler()
		time.Sleep(afterStart)
	}
	for i, w := range works {
		e, err := w.runOnce()
		if err != nil {
			return err
		}
		b.slowed[i].CPU[condition] = append(b.slowed[i].CPU[condition], e.cpu)
		b.slowed[i].Wall[condition] = append(b.slowed[i].Wall[condition], e.wall)
	}
	return nil
}

// launchUncounted starts a contender and leaves its BPF programs in their usual state: their runs are counted only
// until the first run.
func (b *bench) launchUncounted(contender int) (*profiler, error) {
	stop, err := countRunTime()
	if err != nil {
		return nil, err
	}
	defer stop()
	return b.launch(contender, settings{rate: b.rate, interval: b.interval})
}

// slowdownLines are the lines of the table: for each work, its additional time in percent compared with no profiler in
// the same round.
func (b *bench) slowdownLines() (lines []line) {
	for _, s := range b.slowed {
		for _, kind := range []struct {
			key, title string
			seconds    map[string][]float64
		}{{"cpu", "CPU time", s.CPU}, {"wall", "elapsed time", s.Wall}} {
			l := line{figure: figure{fmt.Sprintf("slowdown %s %s", kind.key, s.Key),
				fmt.Sprintf("slow-down of %s, %s", s.Title, kind.title), "%", nil}}
			for _, p := range b.profilers {
				l.addSlowdown(kind.seconds[alone], kind.seconds[p.name])
			}
			l.Control = slowdowns(kind.seconds[alone], kind.seconds[control])
			l.ControlInterval = medianInterval(l.Control)
			l.Ours = known(median(l.Values[0]), len(l.Values[0]) > 0)
			if len(l.Values) > 1 {
				l.Peer = known(median(l.Values[1]), len(l.Values[1]) > 0)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// addSlowdown adds the values of another contender.
func (l *line) addSlowdown(without, with []float64) {
	percent := slowdowns(without, with)
	l.Values = append(l.Values, percent)
	l.Intervals = append(l.Intervals, medianInterval(percent))
}

// slowdowns returns by how many percent each value exceeds its counterpart.
func slowdowns(without, with []float64) (percent []float64) {
	for i := range min(len(without), len(with)) {
		percent = append(percent, 100*(with[i]/without[i]-1))
	}
	return percent
}
