package main

import (
	"fmt"
	"time"
)

// measureDepths measures the BPF program with stacks of several depths, and the share of the deepest stacks that arrive
// complete.
func (b *bench) measureDepths(i int) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: b.interval})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	var first, last float64
	for _, frames := range b.frames {
		cost, err := b.sampleCost(p, b.chains[frames])
		if err != nil {
			return err
		}
		b.addValue(depthKey(frames), i, cost)
		switch frames {
		case slopeFrom:
			first = cost
		case slopeTo:
			last = cost
		}
	}
	if first > 0 && last > 0 {
		b.addValue("slope", i, (last-first)/(slopeTo-slopeFrom))
	}
	time.Sleep(flushTime(b.interval))
	stacks, err := p.sink.stacks()
	if err != nil {
		return err
	}
	for _, frames := range b.frames {
		comm := chainName(frames)
		all := count(stacks, comm, stack.hasUserPart)
		whole := count(stacks, comm, func(s stack) bool { return s.isWhole(frames) })
		if all > 0 {
			b.addValue(wholeKey(frames), i, 100*float64(whole)/float64(all))
		}
	}
	return nil
}

// sampleCost returns the run time of the BPF program per sample of a program that burns CPU, in microseconds.
func (b *bench) sampleCost(p *profiler, path string) (float64, error) {
	short := b.options
	short.time /= 3 // the result is a mean already
	r, err := measureDepth(p, path, short)
	return median(r.windows) / 1e3, err
}

// The depths whose difference gives the cost of a frame.
const slopeFrom, slopeTo = 21, 121

// measurePythonFrame measures the cost of a Python frame in the BPF program.
func (b *bench) measurePythonFrame(i int) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: b.interval})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	var costs []float64
	for _, frames := range []int{pythonFrom, pythonFrom, pythonTo} { // the profiler must first have seen both
		path, err := buildPythonChain(b.dir, frames)
		if err != nil {
			return err
		}
		cost, err := b.sampleCost(p, path)
		if err != nil {
			return err
		}
		costs = append(costs, cost)
	}
	b.addValue("slope python", i, (costs[2]-costs[1])/(pythonTo-pythonFrom))
	return nil
}

// The same for Python.
const pythonFrom, pythonTo = 10, 110

func depthKey(frames int) string { return fmt.Sprintf("bpf %d", frames) }
func wholeKey(frames int) string { return fmt.Sprintf("whole %d", frames) }
