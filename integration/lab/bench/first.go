package main

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// fineInterval is the report interval for measuring the time of samples with profilers that do not report it.
const fineInterval = 50 * time.Millisecond

// measureFirst measures the time from a program's start to its first sample with a complete stack: with a profiler that
// has never seen the program, and then again.
func (b *bench) measureFirst(i int, key, program string, arguments ...string) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: fineInterval, stacks: true})
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
		cmd := exec.Command(program, arguments...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Run(); err != nil {
			return err
		}
		end := time.Now()
		time.Sleep(flushTime(stackInterval))
		stacks, err := p.sink.stacks()
		if err != nil {
			return err
		}
		b.addFirst(i, key+" "+state, stacks, filepath.Base(program), begin, end)
	}
	return nil
}

// addFirst records the time of the first complete stack of a process, and the share of complete ones among its stacks.
func (b *bench) addFirst(i int, key string, stacks []stack, comm string, begin, end time.Time) {
	comm = comm[:min(len(comm), 15)]
	first := end // never
	var seen share
	var times []time.Time
	for _, s := range stacks {
		if s.comm != comm || s.before.Before(begin) || !s.hasUserPart() {
			continue
		}
		seen.addStacks(s)
		times = append(times, s.before)
		if !s.broken && s.before.Before(first) {
			first = s.before
		}
	}
	b.addValue("first "+key, i, first.Sub(begin).Seconds()*1e3)
	earlier := 0
	for _, t := range times {
		if t.Before(first) {
			earlier++
		}
	}
	b.addValue("earlier "+key, i, float64(earlier))
	b.addShare("complete "+key, i, seen)
}

// measureFirstSecond measures the share of complete user stacks in the first second after the profiler's first sample,
// on a machine that was already busy.
func (b *bench) measureFirstSecond(i int) error {
	busy, err := b.clangBuild()
	if err != nil {
		return err
	}
	defer busy.stopPrograms()
	time.Sleep(time.Second)
	p, err := b.profilers[i].start(settings{rate: b.rate, interval: fineInterval, stacks: true})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	begin := p.begin.Add(p.startup)
	time.Sleep(time.Second + flushTime(stackInterval))
	stacks, err := p.sink.stacks()
	if err != nil {
		return err
	}
	var seen share
	for _, s := range stacks {
		if s.hasUserPart() && s.after.Before(begin.Add(time.Second)) {
			seen.addStacks(s)
		}
	}
	b.addShare("first second", i, seen)
	b.addValue("first second samples", i, float64(seen.all))
	return nil
}
