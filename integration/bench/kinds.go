package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// kindCosts are what profiling costs by kinds of samples, while something runs.
type kindCosts struct {
	Work  string     `json:"work"`
	Kinds []kindCost `json:"kinds"`
}

// kindCost is what profiling costs with some kinds. One value a round.
type kindCost struct {
	Name  string    `json:"name"`
	Agent []float64 `json:"agent_seconds_per_minute"` // CPU time of the agent
	BPF   []float64 `json:"bpf_seconds_per_minute"`   // and in its BPF programs
	RSS   []float64 `json:"rss_mb"`
}

// kindSettings are the kinds that are compared, the first with all others, and what asks for them.
var kindSettings = []struct{ name, block string }{
	{"CPU time", ""},
	{"and off-CPU time", "off_cpu { }"},
	{"and off-CPU time with wakers", "off_cpu { labels = [\"state\", \"wait\", \"waker\"] }"},
	{"and page faults", "page_faults { }"},
	{"all", "off_cpu { }\n\tpage_faults { }"},
}

// measureKinds measures what profiling costs by kinds of samples.
func measureKinds(o options, dir string, save func(any) error) error {
	w, err := newWorkshop(dir, nil)
	if err != nil {
		return err
	}
	works, err := w.kindWork()
	if err != nil {
		return err
	}
	var all []*kindCosts
	for _, load := range works {
		if !o.only.MatchString(load.title) {
			continue
		}
		costs := &kindCosts{Work: load.title, Kinds: make([]kindCost, len(kindSettings))}
		all = append(all, costs)
		if err := costs.measure(o, load); err != nil {
			return fmt.Errorf("%s: %w", load.title, err)
		}
		costs.write()
		if err := save(all); err != nil {
			return err
		}
	}
	return nil
}

// buildWaits compiles testdata/waits.c, and returns the program.
func (w *workshop) buildWaits() (string, error) {
	program := filepath.Join(w.dir, "waits")
	if out, err := exec.Command("gcc", "-O2", "-pthread", "-o", program, source("waits.c")).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc waits.c: %w\n%s", err, out)
	}
	return program, nil
}

// kindWork are programs that do much of what some kind has to look at.
func (w *workshop) kindWork() ([]residentWork, error) {
	waits, err := w.buildWaits()
	if err != nil {
		return nil, err
	}
	run := func(arguments string) func() (work, error) {
		return func() (work, error) { return w.shell("exec " + waits + " " + arguments) }
	}
	loop := "while :; do /bin/true; done"
	return []residentWork{
		{key: "idle", title: "1,000 threads that wait", start: run("threads 1000 0")},
		{key: "busy", title: "10,000 threads, half of them busy", start: run("threads 5000 5000")},
		{key: "switches", title: "two threads that wake each other all the time", start: run("switches")},
		{key: "faults", title: "memory that is touched, given back and touched again", start: run("faults")},
		{key: "exec", title: "two shells that start /bin/true in a loop",
			start: func() (work, error) { return w.shell(loop, loop) }},
	}, nil
}

// measure runs the kinds in turn, in another order in each round.
func (c *kindCosts) measure(o options, load residentWork) error {
	for round := range o.rounds {
		for place := range kindSettings {
			at := inTurn(round, place, len(kindSettings))
			fmt.Fprintf(os.Stderr, "%s, round %d of %d: %s\n", load.title, round+1, o.rounds, kindSettings[at].name)
			running, err := load.start()
			if err != nil {
				return err
			}
			time.Sleep(afterStart)
			err = c.Kinds[at].measure(o, kindSettings[at].name, kindSettings[at].block)
			running.stop()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// measure measures once, after the first report, which reads everything.
func (c *kindCost) measure(o options, name, block string) error {
	c.Name = name
	ours := o.contenders()[0]
	ours.block = block
	p, err := ours.start(settings{rate: o.rate, interval: o.interval})
	if err != nil {
		return err
	}
	defer p.stop()
	time.Sleep(o.warm)
	before, err := p.spent()
	if err != nil {
		return err
	}
	time.Sleep(o.time)
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

func (c *kindCosts) write() {
	fmt.Printf("%s\n%24s %14s %14s %8s\n", c.Work, "", "agent, s/min", "BPF, s/min", "RSS, MB")
	for _, k := range c.Kinds {
		fmt.Printf("%24s %14.2f %14.2f %8.0f\n", k.Name, median(k.Agent), median(k.BPF), median(k.RSS))
	}
}
