package main

import (
	"fmt"
	"time"
)

// stackInterval is the report interval for measurements of stacks.
const stackInterval = time.Second

// measureShortLived counts the complete stacks of short-lived processes. It keeps CPUs from being idle: an idle CPU's
// clock may stop, and samples that were due in the meantime are not delivered to profilers.
func (b *bench) measureShortLived(i int) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: stackInterval, stacks: true})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	busy, err := b.keepBusy()
	if err != nil {
		return err
	}
	defer busy.stopBurners()
	time.Sleep(afterStart)
	for _, s := range shortLived {
		n, stacks, err := b.stacksOf(s, p.sink)
		if err != nil {
			return err
		}
		expected := float64(n*s.milliseconds*b.rate) / 1000
		full := count(stacks, chainName(shortFrames), func(s stack) bool { return s.fullBelow(shortFrames) })
		b.addValue(shortKey(s), i, 100*float64(full)/expected)
	}
	if p.unjudged {
		return nil
	}
	_, stacks, err := b.stacksOf(living, p.sink)
	if err != nil {
		return err
	}
	b.addShare("living", i, namedShare(stacks))
	return nil
}

// stacksOf runs a stream of processes, and returns their number and the stacks of that time.
func (b *bench) stacksOf(s short, from *sink) (processes int, stacks []stack, err error) {
	if _, err = from.stacks(); err != nil {
		return 0, nil, err
	}
	if processes, err = b.shortProcesses(s, b.time); err != nil {
		return 0, nil, err
	}
	time.Sleep(flushTime(stackInterval))
	stacks, err = from.stacks()
	return processes, stacks, err
}

// namedShare is the share of the stacks that are complete and have names in all frames, among the stacks of short-lived
// programs and of the program that starts them, whose name a new process has first.
func namedShare(stacks []stack) share {
	var all share
	for _, s := range stacks {
		if s.comm != chainName(shortFrames) && s.comm != "spawn" || !s.hasUserPart() {
			continue
		}
		if !s.broken && s.unnamed > 0 {
			s.broken, s.reason = true, "frames without a name"
		}
		all.addStacks(s)
	}
	return all
}

func shortKey(s short) string { return fmt.Sprintf("short %d", s.milliseconds) }
