package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// quickResult is the cost of a sample at one depth.
type quickResult struct {
	windows []float64 // ns per sample, in windows of half a second
	runs    runs
	burned  float64 // CPU seconds of the workload
	wall    float64 // CPU seconds available
}

const window = 500 * time.Millisecond

// warmUp is the time that a workload runs before the measurement, for building tables.
const warmUp = 300 * time.Millisecond

// measureDepth runs the program at path, which burns CPU, and returns the cost of samples.
func measureDepth(p *profiler, path string, options options) (r quickResult, err error) {
	b, err := startBurners(path, options.nice)
	if err != nil {
		return r, err
	}
	defer b.stopBurners()
	time.Sleep(warmUp)
	first, err := sampleRuns(p.pid)
	if err != nil {
		return r, err
	}
	begin, cpu := time.Now(), b.cpuSeconds()
	last := first
	for time.Since(begin) < options.time {
		time.Sleep(window)
		now, err := sampleRuns(p.pid)
		if err != nil {
			return r, err
		}
		if d := now.minus(last); d.count > 0 {
			r.windows = append(r.windows, d.mean())
		}
		last = now
	}
	r.runs = last.minus(first)
	r.burned = b.cpuSeconds() - cpu
	r.wall = time.Since(begin).Seconds() * float64(len(b))
	return r, nil
}

// quick prints ns per sample by depth for each contender, in alternation.
func quick(contenders []contender, options options, dir string) error {
	build := buildChain
	if options.python {
		build = buildPythonChain
	}
	paths := map[int]string{}
	for _, frames := range options.frames {
		path, err := build(dir, frames)
		if err != nil {
			return err
		}
		paths[frames] = path
	}
	results := make([]map[int]quickResult, len(contenders))
	for range options.rounds {
		for i, c := range contenders {
			if results[i] == nil {
				results[i] = map[int]quickResult{}
			}
			if err := quickRound(c, options, paths, results[i]); err != nil {
				return err
			}
		}
	}
	printQuick(contenders, options.frames, results)
	return nil
}

func quickRound(c contender, options options, paths map[int]string, results map[int]quickResult) error {
	warm, err := startBurners(paths[options.frames[0]], lowestPriority) // so that a first sample arrives
	if err != nil {
		return err
	}
	p, err := c.start(settings{rate: options.rate, interval: options.interval})
	warm.stopBurners()
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	for _, frames := range options.frames {
		r, err := measureDepth(p, paths[frames], options)
		if err != nil {
			return err
		}
		sum := results[frames]
		sum.windows = append(sum.windows, r.windows...)
		sum.runs.count += r.runs.count
		sum.runs.nanoseconds += r.runs.nanoseconds
		sum.burned += r.burned
		sum.wall += r.wall
		results[frames] = sum
	}
	return nil
}

func printQuick(contenders []contender, depths []int, results []map[int]quickResult) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "frames\t")
	for _, c := range contenders {
		fmt.Fprintf(w, "%s: ns/sample\tmean\tsamples\tworkload's CPU\t", c.name)
	}
	if len(contenders) == 2 {
		fmt.Fprint(w, "ratio\t")
	}
	fmt.Fprintln(w)
	for _, frames := range depths {
		fmt.Fprintf(w, "%d\t", frames)
		for i := range contenders {
			r := results[i][frames]
			fmt.Fprintf(w, "%.0f\t%.0f\t%d\t%.0f %%\t", median(r.windows), r.runs.mean(), r.runs.count, 100*r.burned/r.wall)
		}
		if len(contenders) == 2 {
			fmt.Fprintf(w, "%.2f\t", median(results[0][frames].windows)/median(results[1][frames].windows))
		}
		fmt.Fprintln(w)
	}
	if last := len(depths) - 1; last > 0 {
		fmt.Fprint(w, "per frame\t")
		for i := range contenders {
			more := median(results[i][depths[last]].windows) - median(results[i][depths[0]].windows)
			slope := more / float64(depths[last]-depths[0])
			fmt.Fprintf(w, "%.0f\t\t\t\t", slope)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
