package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// kindCosts are the costs of profiling by kinds of samples, for one workload.
type kindCosts struct {
	Work  string     `json:"work"`
	Kinds []kindCost `json:"kinds"`
}

// kindCost is the cost of profiling with some kinds of samples, one value per round.
type kindCost struct {
	Name  string    `json:"name"`
	Agent []float64 `json:"agent_seconds_per_minute"` // CPU time of the agent
	BPF   []float64 `json:"bpf_seconds_per_minute"`   // including its BPF programs
	RSS   []float64 `json:"rss_mb"`
	// Switches is the machine's number of context switches per second.
	Switches []float64 `json:"switches_per_second,omitempty"`
}

// kindSettings are the kinds to compare (the first with all others), each with the configuration that enables it.
var kindSettings = []struct{ name, block string }{
	{"CPU time", ""},
	{"and off-CPU time", "off_cpu { }"},
	{"and off-CPU time with wakers", "off_cpu { labels = [\"state\", \"wait\", \"waker\"] }"},
	{"and page faults", "page_faults { }"},
	{"and memory in use", "heap { }"},
	{"and probes", probesOfKinds},
	{"all", "off_cpu { }\n\tpage_faults { }\n\theap { }\n\t" + probesOfKinds},
}

// probesOfKinds samples the starts of programs, and one in a thousand context switches.
const probesOfKinds = `probe_links = ["tracepoint:sched:sched_process_exec", "software:context-switches period=1000"]`

// measureKinds measures the cost of profiling by kinds of samples.
func measureKinds(o options, dir string, save func(any) error) error {
	w, err := newWorkshop(dir, nil)
	if err != nil {
		return err
	}
	waits := filepath.Join(dir, "waits")
	if err := buildWaits(waits); err != nil {
		return err
	}
	return o.measureEach(slices.Concat(waitWork(waits), w.kindWork(waits)), o.ourKinds(), save)
}

// ourKinds returns Headwater with each of the kindSettings.
func (o *options) ourKinds() (all []contender) {
	for _, kind := range kindSettings {
		c := o.contenders()[0]
		c.name, c.block = kind.name, kind.block
		all = append(all, c)
	}
	return all
}

// measureEach measures the cost of profilers during each of the loads, and saves a []*kindCosts after each.
func (o *options) measureEach(loads []residentWork, profilers []contender, save func(any) error) error {
	var all []*kindCosts
	for _, load := range loads {
		if !o.only.MatchString(load.title) {
			continue
		}
		costs := &kindCosts{Work: load.title, Kinds: make([]kindCost, len(profilers))}
		all = append(all, costs)
		if err := costs.measure(o, load, profilers); err != nil {
			return fmt.Errorf("%s: %w", load.title, err)
		}
		costs.write()
		if err := save(all); err != nil {
			return err
		}
	}
	return nil
}

// buildWaits compiles testdata/waits.c.
func buildWaits(program string, flags ...string) error {
	arguments := append([]string{"-O2", "-pthread", "-o", program, source("waits.c")}, flags...)
	if out, err := exec.Command("gcc", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc waits.c: %w\n%s", err, out)
	}
	return nil
}

// running returns a function that starts a command, which runs until it is stopped.
func running(name string, arguments ...string) func() (work, error) {
	return func() (work, error) { return start(exec.Command(name, arguments...)) }
}

// waitWork are workloads of waiting threads, in the program that buildWaits builds.
func waitWork(waits string) []residentWork {
	return []residentWork{
		{key: "idle", title: "1,000 threads that wait", start: running(waits, "threads", "1000", "0")},
		{key: "switches", title: "two threads that wake each other all the time", start: running(waits, "switches")},
	}
}

// kindWork are workloads with many events of other kinds, or that use more than one CPU.
func (w *workshop) kindWork(waits string) []residentWork {
	loop := "while :; do /bin/true; done"
	return []residentWork{
		{key: "busy", title: "10,000 threads, half of them busy", start: running(waits, "threads", "5000", "5000")},
		{key: "faults", title: "memory that is touched, given back and touched again", start: running(waits, "faults")},
		{key: "exec", title: "two shells that start /bin/true in a loop",
			start: func() (work, error) { return w.shell(loop, loop) }},
	}
}

// measure runs the profilers in turn, in a different order in each round.
func (c *kindCosts) measure(o *options, load residentWork, profilers []contender) error {
	for round := range o.rounds {
		for place := range profilers {
			at := inTurn(round, place, len(profilers))
			fmt.Fprintf(os.Stderr, "%s, round %d of %d: %s\n", load.title, round+1, o.rounds, profilers[at].name)
			started, err := load.start()
			if err != nil {
				return err
			}
			time.Sleep(afterStart)
			err = c.Kinds[at].measure(o, profilers[at])
			started.stopPrograms()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// measure measures once, after the first report, which reads all files. A contender without a binary stands for no
// profiler.
func (c *kindCost) measure(o *options, profiler contender) error {
	c.Name = profiler.name
	if profiler.binary == "" {
		return c.measureSwitches(o)
	}
	p, err := profiler.start(settings{rate: o.rate, interval: o.interval})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	time.Sleep(o.warm)
	before, err := p.spent()
	if err != nil {
		return err
	}
	if err := c.measureSwitches(o); err != nil {
		return err
	}
	after, err := p.spent()
	if err != nil {
		return err
	}
	rss, _, err := memory(p.pid)
	if err != nil {
		return err
	}
	agent, together := after.perMinute(before)
	c.Agent = append(c.Agent, agent)
	c.BPF = append(c.BPF, together-agent)
	c.RSS = append(c.RSS, float64(rss)/1e6)
	return nil
}

// measureSwitches counts context switches during the time of a measurement.
func (c *kindCost) measureSwitches(o *options) error {
	begin := time.Now()
	before, err := switches()
	if err != nil {
		return err
	}
	time.Sleep(o.time)
	after, err := switches()
	if err != nil {
		return err
	}
	c.Switches = append(c.Switches, float64(after-before)/time.Since(begin).Seconds())
	return nil
}

func (c *kindCosts) write() {
	fmt.Printf("%s\n%32s %14s %14s %8s %12s\n", c.Work, "", "agent, s/min", "BPF, s/min", "RSS, MB", "switches/s")
	for _, k := range c.Kinds {
		fmt.Printf("%32s %14.2f %14.2f %8.0f %12.0f\n",
			k.Name, median(k.Agent), median(k.BPF), median(k.RSS), median(k.Switches))
	}
}
