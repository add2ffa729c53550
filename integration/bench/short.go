package main

import (
	"fmt"
	"time"
)

// stackInterval is how often profilers report where their stacks are looked at.
const stackInterval = time.Second

// measureShortLived counts the full stacks of processes that do not live long.
func (b *bench) measureShortLived(i int) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: stackInterval, stacks: true})
	if err != nil {
		return err
	}
	defer p.stop()
	time.Sleep(afterStart)
	for _, s := range shortLived {
		if _, err := p.sink.stacks(); err != nil {
			return err
		}
		n, err := b.shortProcesses(s, b.time)
		if err != nil {
			return err
		}
		time.Sleep(flushTime(stackInterval))
		stacks, err := p.sink.stacks()
		if err != nil {
			return err
		}
		expected := float64(n*s.milliseconds*b.rate) / 1000
		full := count(stacks, chainName(shortFrames), func(s stack) bool { return s.fullBelow(shortFrames) })
		b.add(shortKey(s), i, 100*float64(full)/expected)
	}
	return nil
}

func shortKey(s short) string { return fmt.Sprintf("short %d", s.milliseconds) }
