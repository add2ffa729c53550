package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// bench is a running comparison.
type bench struct {
	options
	*workshop
	*results

	profilers []contender
	work      []costlyWork
	slowed    []slowedDown
	took      map[string]float64 // seconds, by part
	skipped   []string           // measurements left out, with reasons
}

// costlyWork is a workload during which a profiler's own cost is measured.
type costlyWork struct {
	key, title string
	start      func() (stop func(), err error)
}

// costlyFrames is the depth of the stacks in such a workload.
const costlyFrames = 61

var shortLived = []short{{milliseconds: 2, rate: 200}, {milliseconds: 20, rate: 40}, {milliseconds: 100, rate: 8}}

func newBench(o options, w *workshop) *bench {
	contenders := o.contenders()
	b := &bench{options: o, workshop: w, profilers: contenders, results: newResults(len(contenders)),
		took: map[string]float64{}}
	running := func(start func() (work, error)) func() (func(), error) {
		return func() (func(), error) {
			w, err := start()
			return w.stopPrograms, err
		}
	}
	b.work = []costlyWork{
		{"idle", "idle host", func() (func(), error) { return func() {}, nil }},
		{"chain", fmt.Sprintf("%d frames on each CPU", costlyFrames), func() (func(), error) {
			burning, err := w.chain(costlyFrames, o.nice)
			return burning.stopBurners, err
		}},
	}
	if w.clang != "" {
		b.work = append(b.work, costlyWork{"clang", "clang -O2 on each CPU", running(w.clangBuild)})
	} else {
		b.skipped = append(b.skipped, "no clang is installed")
	}
	if w.node == "" {
		b.skipped = append(b.skipped, "no node is installed")
	}
	b.work = append(b.work,
		costlyWork{"go", "go build -a", running(w.goBuild)},
		costlyWork{"short", "200 processes/s of 2 ms", func() (func(), error) {
			ended := make(chan error, 1)
			go func() {
				_, err := w.shortProcesses(shortLived[0], b.warm+b.costTime()+warmUp)
				ended <- err
			}()
			return func() { <-ended }, nil
		}},
	)
	return b
}

// runRounds runs every measurement for the contenders in turn, in several rounds, and calls progress after each round.
// It leaves out measurements that fail, and records the failures.
func (b *bench) runRounds(progress func() error) error {
	for round := range b.rounds {
		for _, part := range b.parts() {
			if !b.only.MatchString(part.title) {
				continue
			}
			if part.once && round > 0 {
				continue
			}
			order := []int{0, 1}[:len(b.profilers)]
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, i := range order {
				title := fmt.Sprintf("round %d of %d: %s: %s", round+1, b.rounds, part.title, b.profilers[i].name)
				fmt.Fprintln(os.Stderr, title)
				begin := time.Now()
				if err := part.measure(i); err != nil {
					b.skipped = append(b.skipped, fmt.Sprintf("%s: %v", title, err))
				}
				b.took[part.title] += time.Since(begin).Seconds()
			}
		}
		if err := progress(); err != nil {
			return err
		}
	}
	return nil
}

// part is one measurement, made for one profiler after the other.
type part struct {
	title   string
	once    bool // only in the first round
	measure func(contender int) error
}

func (b *bench) parts() []part {
	if b.languages {
		return b.languageParts()
	}
	parts := []part{{title: "depths", measure: b.measureDepths}}
	for _, w := range b.work {
		parts = append(parts, part{title: w.title, measure: func(i int) error { return b.measureCost(i, w) }})
	}
	parts = append(parts, part{title: "short-lived processes", measure: b.measureShortLived})
	if slices.ContainsFunc(b.profilers, func(c contender) bool { return c.unjudged }) {
		return parts
	}
	parts = append(parts, part{title: "programs that are hard to unwind", once: true, measure: b.measurePrograms})
	if b.clang != "" {
		parts = append(parts, part{title: "first stack of clang", measure: func(i int) error {
			return b.measureFirst(i, "clang", b.clang, "-w", "-O2", "-std=c++17", "-c",
				"-o", os.DevNull, source("build/containers.cc"))
		}})
		parts = append(parts, part{title: "first second of a busy machine", measure: b.measureFirstSecond})
	}
	if b.node != "" {
		parts = append(parts, part{title: "first stack of node", measure: func(i int) error {
			return b.measureFirst(i, "node", b.node, "-e", "for (let i = 0, t = Date.now(); Date.now() - t < 700;) i++")
		}})
	}
	return parts
}

// keepBusy keeps CPUs from being idle, by programs of the lowest priority.
func (b *bench) keepBusy() (burners, error) { return startBurners(b.burner, lowestPriority) }

// launch starts a contender while CPUs are kept busy, so that its first sample arrives.
func (b *bench) launch(contender int, how settings) (*profiler, error) {
	busy, err := b.keepBusy()
	if err != nil {
		return nil, err
	}
	defer busy.stopBurners()
	return b.profilers[contender].start(how)
}

// flushTime is the longest time for a sample to arrive: a report interval, a fifth more for the peer, and the
// transmission.
func flushTime(interval time.Duration) time.Duration { return interval*6/5 + time.Second }
