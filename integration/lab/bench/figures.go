package main

import (
	"fmt"
	"slices"
)

// figures are the lines of the table, in order.
func (b *bench) figures() []figure {
	return slices.Concat(b.sampleFigures(), b.costFigures(), b.mapFigures(), stackFigures(), languageFigures())
}

// sampleFigures are the figures of the BPF program.
func (b *bench) sampleFigures() []figure {
	var f []figure
	for _, frames := range b.frames {
		one := figure{depthKey(frames), "BPF time a sample, " + plural(frames, "frame"), "us", nil}
		if frames == 21 || frames == 61 || frames == 121 {
			one.Aim = ratio(0.35)
		}
		f = append(f, one)
	}
	f = append(f,
		figure{"bpf clang", "BPF time a sample, clang -O2 on each CPU (mean)", "us", ratio(0.35)},
		figure{"slope", fmt.Sprintf("BPF time a frame, from %d to %d frames", slopeFrom, slopeTo), "us", atMost(0.06)},
	)
	for _, frames := range b.frames {
		f = append(f, figure{wholeKey(frames), "whole stacks of " + plural(frames, "frame"), "%", least(99)})
	}
	return f
}

// costFigures are the figures of the agent.
func (b *bench) costFigures() []figure {
	var f []figure
	for _, w := range b.work {
		f = append(f, figure{"cpu " + w.key, "agent CPU, " + w.title, "s/min", ratio(0.5)})
	}
	for _, w := range b.work {
		f = append(f, figure{"together " + w.key, "agent CPU and BPF time, " + w.title, "s/min", ratio(0.5)})
	}
	for _, w := range b.work {
		f = append(f, figure{"warming cpu " + w.key, fmt.Sprintf("agent CPU in its first %v, %s", b.warm, w.title), "s", nil})
	}
	for _, w := range b.work {
		f = append(f, figure{"rss " + w.key, "agent RSS, " + w.title, "MB", ratio(0.6)},
			figure{"peak " + w.key, "peak RSS, " + w.title, "MB", ratio(0.5)})
	}
	for _, w := range b.work {
		f = append(f, figure{"complete " + w.key, "complete user stacks of the machine, " + w.title, "%", least(99.5)})
	}
	return append(f, figure{"startup", "start to first sample", "s", atMost(0.5)},
		figure{"startup cpu", "CPU time until the first sample", "s", nil},
		figure{"nice", "nice value of the agent", "", nil})
}

// mapFigures are the figures of kernel memory.
func (b *bench) mapFigures() []figure {
	f := []figure{{"maps start", "BPF maps after the start", "MB", ratio(0.25)}}
	for _, w := range b.work {
		one := figure{"maps " + w.key, "BPF maps, " + w.title, "MB", nil}
		if w.key == "clang" {
			one.Aim = ratio(0.25)
		}
		f = append(f, one)
	}
	return f
}

// stackFigures are the figures of stacks of processes that start or end.
func stackFigures() []figure {
	var f []figure
	for i, s := range shortLived {
		aim := []float64{90, 97, 99}[i]
		f = append(f, figure{shortKey(s), fmt.Sprintf("full stacks of processes of %d ms, %d/s, over expected",
			s.milliseconds, s.rate), "%", least(aim)})
	}
	f = append(f, figure{"living",
		"stacks of processes of 5 to 20 ms, 200/s: complete, and with names (peer: complete)", "%", least(95)})
	for _, p := range programs {
		f = append(f, figure{p.key(), "complete user stacks, " + p.title, "%", least(99)})
	}
	for _, program := range []string{"clang", "node"} {
		for _, state := range []string{"cold", "warm"} {
			key := program + " " + state
			f = append(f, figure{"first " + key, "exec to first complete stack, " + key, "ms", nil},
				figure{"earlier " + key, "samples before the first complete stack, " + key, "", atMost(0)},
				figure{"complete " + key, "complete user stacks of the program, " + key, "%", nil})
		}
	}
	return append(f,
		figure{"first second", "complete user stacks, first second on a machine busy with clang", "%", least(99)},
		figure{"first second samples", "samples with a user part, first second on a machine busy with clang", "", nil})
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
