package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// language is a language whose functions the profiler should name. Its program, testdata/chain.*, is a chain of the
// functions f01 to f10; f10 burns CPU, and native code or the language's library calls f06.
type language struct {
	key, title string
	arguments  []string // the command, without the number of seconds to run
}

// languageProcesses is the number of processes that run at once.
const languageProcesses = 20

// languageList returns the installed languages. Java's program is compiled into the workshop's directory.
func (b *bench) languageList() (all []language, err error) {
	python := "/usr/bin/python3" // the PATH may find a wrapper script first
	if findTool(python) != "" {
		all = append(all, language{"python", "Python", []string{python, source("chain.py")}})
	} else {
		b.skipped = append(b.skipped, "no Python is installed")
	}
	if b.node != "" {
		all = append(all, language{"node", "JavaScript", []string{b.node, source("chain.js")}})
	}
	if java := findTool("java"); java != "" && findTool("javac") != "" {
		if out, err := exec.Command("javac", "-d", b.dir, source("Chain.java")).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("javac Chain.java: %w\n%s", err, out)
		}
		all = append(all, language{"java", "Java", []string{java, "-cp", b.dir, "Chain"}})
	} else {
		b.skipped = append(b.skipped, "no JDK is installed")
	}
	return all, nil
}

func (b *bench) languageParts() (parts []part) {
	all, err := b.languageList()
	if err != nil {
		b.skipped = append(b.skipped, err.Error())
	}
	for _, l := range all {
		parts = append(parts,
			part{title: "first named stack of " + l.title, measure: func(i int) error { return b.measureFirstNamed(i, l) }},
			part{title: fmt.Sprintf("%d processes of %s", languageProcesses, l.title),
				measure: func(i int) error { return b.measureLanguage(i, l) }})
		if l.key == "python" {
			parts = append(parts, part{title: "frames of Python", measure: b.measurePythonFrame})
		}
	}
	return parts
}

// start runs a process of the language for a number of seconds.
func (l language) start(seconds float64) (*exec.Cmd, error) {
	cmd := exec.Command(l.arguments[0], append(slices.Clone(l.arguments[1:]), fmt.Sprint(seconds))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, cmd.Start()
}

// measureFirstNamed measures the time from a program's start to its first sample with a function of the script: with a
// profiler that has never seen the language, and then again.
func (b *bench) measureFirstNamed(i int, l language) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: fineInterval, stacks: true, pids: true})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	time.Sleep(afterStart)
	for _, state := range []string{"cold", "warm"} {
		if _, err := p.sink.stacks(); err != nil {
			return err
		}
		begin := time.Now()
		cmd, err := l.start(1)
		if err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return err
		}
		time.Sleep(flushTime(stackInterval))
		stacks, err := p.sink.stacks()
		if err != nil {
			return err
		}
		b.addFirstNamed(i, l.key+" "+state, stacks, cmd.Process.Pid, begin)
	}
	return nil
}

// addFirstNamed records the time of the first sample with a function of the script, if there is one.
func (b *bench) addFirstNamed(i int, key string, stacks []stack, pid int, begin time.Time) {
	var first time.Time
	for _, s := range stacks {
		if s.pid == pid && len(s.functions()) > 0 && (first.IsZero() || s.before.Before(first)) {
			first = s.before
		}
	}
	if !first.IsZero() {
		b.addValue("first named "+key, i, first.Sub(begin).Seconds()*1e3)
	}
}

// measureLanguage measures the share of named samples for processes of a language, and the cost of the profiler.
func (b *bench) measureLanguage(i int, l language) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: b.interval, stacks: true, pids: true})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	time.Sleep(afterStart)
	first, err := readCost(p)
	if err != nil {
		return err
	}
	pids := map[int]bool{}
	var running work
	defer func() { running.stopPrograms() }()
	for range languageProcesses {
		cmd, err := l.start(3600)
		if err != nil {
			return err
		}
		running = append(running, cmd)
		pids[cmd.Process.Pid] = true
	}
	if _, err := b.costOf(i, p, l.key, first); err != nil {
		return err
	}
	time.Sleep(flushTime(b.interval))
	stacks, err := p.sink.stacks()
	if err != nil {
		return err
	}
	b.addNamed(i, l.key, stacks, pids)
	return nil
}

// addNamed records the share of the user samples of some processes that have a function of the script, that have all
// its functions, and that are complete according to the profiler.
func (b *bench) addNamed(i int, key string, stacks []stack, pids map[int]bool) {
	var all, named, chains int
	var whole share
	for _, s := range stacks {
		if !pids[s.pid] || !s.hasUserPart() {
			continue
		}
		all += s.count
		whole.addStacks(s)
		functions := s.functions()
		if len(functions) > 0 {
			named += s.count
		}
		if slices.Equal(functions, wholeChain) {
			chains += s.count
		}
	}
	if all == 0 {
		return
	}
	b.addValue("language samples "+key, i, float64(all))
	b.addValue("named "+key, i, 100*float64(named)/float64(all))
	b.addValue("chain "+key, i, 100*float64(chains)/float64(all))
	b.addShare("language whole "+key, i, whole)
}

// scriptFunction matches the chain's functions in names that may include a class and parameters.
var scriptFunction = regexp.MustCompile(`\bf(\d\d)\b`)

// functions returns the numbers of the chain's functions in a stack, the outermost first.
func (s stack) functions() (numbers []string) {
	for _, name := range slices.Backward(s.script) {
		if m := scriptFunction.FindStringSubmatch(name); m != nil {
			numbers = append(numbers, m[1])
		}
	}
	return numbers
}

// wholeChain are the numbers of the chain's functions.
var wholeChain = []string{"01", "02", "03", "04", "05", "06", "07", "08", "09", "10"}

// languageFigures are the figures of programs whose functions only a language runtime knows.
func languageFigures() (f []figure) {
	rows := []struct {
		key, title, unit string
		aim              *target
	}{
		{"named ", "user samples with a function of the script", "%", least(99)},
		{"chain ", "user samples with all its functions in order", "%", nil},
		{"language whole ", "whole user stacks, as the profiler reports", "%", least(99)},
		{"language samples ", "user samples", "", nil},
		{"bpf ", "BPF time a sample", "us", nil},
		{"cpu ", "agent CPU", "s/min", nil},
		{"warming cpu ", "agent CPU in its first seconds", "s", nil},
		{"rss ", "agent RSS", "MB", nil},
		{"peak ", "peak RSS", "MB", nil},
		{"maps ", "BPF maps", "MB", nil},
	}
	f = append(f, figure{"slope python", fmt.Sprintf("BPF time a frame of Python, from %d to %d functions",
		pythonFrom, pythonTo), "us", atMost(0.06)})
	for _, l := range []struct{ key, title string }{{"python", "Python"}, {"node", "JavaScript"}, {"java", "Java"}} {
		for _, r := range rows {
			f = append(f, figure{r.key + l.key, fmt.Sprintf("%s, %d processes of %s", r.title, languageProcesses, l.title),
				r.unit, r.aim})
		}
		for _, state := range []string{"cold", "warm"} {
			f = append(f, figure{"first named " + l.key + " " + state,
				fmt.Sprintf("start of %s to its first sample with a function of the script, %s", l.title, state), "ms", nil})
		}
	}
	return f
}
