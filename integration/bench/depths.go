package main

import (
	"fmt"
	"time"
)

// measureDepths measures the BPF program under stacks of several depths, and how
// many of the deepest arrive whole.
func (b *bench) measureDepths(i int) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: b.interval})
	if err != nil {
		return err
	}
	defer p.stop()
	var first, last float64
	short := b.options
	short.time /= 3 // a sample's cost is a mean already
	for _, frames := range b.frames {
		r, err := measureDepth(p, b.chains[frames], short)
		if err != nil {
			return err
		}
		cost := median(r.windows) / 1e3
		b.add(depthKey(frames), i, cost)
		switch frames {
		case slopeFrom:
			first = cost
		case slopeTo:
			last = cost
		}
	}
	if first > 0 && last > 0 {
		b.add("slope", i, (last-first)/(slopeTo-slopeFrom))
	}
	time.Sleep(flushTime(b.interval))
	stacks, err := p.sink.stacks()
	if err != nil {
		return err
	}
	for _, frames := range b.frames {
		comm := chainName(frames)
		all := count(stacks, comm, stack.hasUserPart)
		whole := count(stacks, comm, func(s stack) bool { return s.full(frames) })
		if all > 0 {
			b.add(wholeKey(frames), i, 100*float64(whole)/float64(all))
		}
	}
	return nil
}

// The depths between which the cost of a frame is taken.
const slopeFrom, slopeTo = 21, 121

func depthKey(frames int) string { return fmt.Sprintf("bpf %d", frames) }
func wholeKey(frames int) string { return fmt.Sprintf("whole %d", frames) }
