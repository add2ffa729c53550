package main

import (
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// options are what the command line asks for.
type options struct {
	binary, peer, peerArguments string
	peerIsHeadwater             bool

	quick, resident, json bool
	out, show             string
	only                  *regexp.Regexp

	frames []int
	rate   int
	rounds int
	time   time.Duration // of one measurement
	warm   time.Duration // before an agent's cost is measured
	nice   int
}

func parseFlags() (o options, err error) {
	flag.StringVar(&o.binary, "binary", "", "the Headwater to measure; built from this tree if empty")
	flag.StringVar(&o.peer, "peer", "", "a profiler to compare with")
	flag.StringVar(&o.peerArguments, "peer-args", peerArguments, "its arguments; {rate}, {interval} and {sink}, an OTLP receiver, are filled in")
	flag.BoolVar(&o.peerIsHeadwater, "peer-is-headwater", false, "the peer is another build of Headwater")
	flag.BoolVar(&o.quick, "quick", false, "measure nanoseconds per sample only")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	flag.StringVar(&o.out, "out", "", "a file for what is measured so far, as JSON")
	flag.StringVar(&o.show, "show", "", "print the table of such a file, and measure nothing")
	flag.BoolVar(&o.resident, "resident", false, "measure the unwind rows in memory and the heap beside whole tables only")
	only := flag.String("only", "", "a regular expression of the titles of the parts to run")
	frames := flag.String("frames", "1,5,21,61,121,1024", "depths of the stacks")
	flag.IntVar(&o.rate, "rate", 99, "samples per second and CPU")
	flag.IntVar(&o.rounds, "rounds", 0, "how often each profiler takes its turn; 0: 3, and 2 with -quick")
	flag.DurationVar(&o.time, "time", 0, "of one measurement; 0: 10s, 1.5s with -quick, and 1m with -resident")
	flag.DurationVar(&o.warm, "warm", 6*time.Second, "of a workload, before an agent's cost is measured")
	flag.IntVar(&o.nice, "nice", -10, "nice value of the programs that only burn CPU")
	flag.Parse()

	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	switch {
	case o.quick:
		o.setDefaults(2, 1500*time.Millisecond)
	case o.resident:
		o.setDefaults(1, time.Minute)
	default:
		o.setDefaults(3, 10*time.Second)
	}
	o.frames, err = parseDepths(*frames)
	return o, err
}

func (o *options) setDefaults(rounds int, length time.Duration) {
	if o.rounds == 0 {
		o.rounds = rounds
	}
	if o.time == 0 {
		o.time = length
	}
}

// contenders returns the profilers to compare, ours first.
func (o *options) contenders() []contender {
	ours := contender{name: "headwater", binary: o.binary, arguments: headwaterArguments}
	switch {
	case o.peer == "":
		return []contender{ours}
	case o.peerIsHeadwater:
		return []contender{ours, {name: "other", binary: o.peer, arguments: headwaterArguments}}
	}
	return []contender{ours, {
		name: "peer", binary: o.peer, arguments: o.peerArguments,
		forStacks: peerStackArguments, finest: stackInterval, tracefs: true,
	}}
}

// parseDepths reads numbers of frames that are separated by commas.
func parseDepths(text string) ([]int, error) {
	var depths []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-frames: %q is no number of frames", word)
		}
		depths = append(depths, n)
	}
	return depths, nil
}
