package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// options are the options from the command line.
type options struct {
	binary, peer, peerArguments string
	peerIsHeadwater             bool
	peerIsAlloy                 bool

	quick, python, resident, languages, kinds, switches, counted, offCPU, parts, redis, quiet bool
	record, show, keep, waits                                                                 string
	only                                                                                      *regexp.Regexp

	frames     []int
	rate       int
	rounds     int
	slowRounds int
	interval   time.Duration // report interval, unless a measurement uses its own
	time       time.Duration // duration of one measurement
	warm       time.Duration // warm-up before an agent's cost is measured
	nice       int
}

func parseFlags() (o options, err error) {
	flag.StringVar(&o.binary, "binary", "", "the Headwater to measure; built from this tree if empty")
	flag.StringVar(&o.peer, "peer", "", "a profiler to compare with")
	flag.StringVar(&o.peerArguments, "peer-args", peerArguments,
		"its arguments; {rate}, {interval} and {sink}, an OTLP receiver, are filled in")
	flag.BoolVar(&o.peerIsHeadwater, "peer-is-headwater", false, "the peer is another build of Headwater")
	flag.BoolVar(&o.peerIsAlloy, "peer-is-alloy", false, "the peer is Grafana Alloy; see slim-alloy")
	flag.BoolVar(&o.quick, "quick", false, "measure nanoseconds per sample only")
	flag.BoolVar(&o.python, "python", false, "with -quick: the frames are functions of Python")
	flag.StringVar(&o.record, "record", "", "save what is measured to this file")
	flag.StringVar(&o.show, "show", "", "print the table of such a file, and measure nothing")
	flag.BoolVar(&o.quiet, "quiet", false, "refuse to measure while other processes use the CPUs")
	flag.BoolVar(&o.resident, "resident", false,
		"measure the unwind rows in memory, and the heap, next to whole tables only")
	flag.BoolVar(&o.languages, "languages", false, "measure programs in Python, JavaScript and Java only")
	flag.BoolVar(&o.kinds, "kinds", false, "measure what kinds of samples cost, next to CPU time alone, only")
	flag.BoolVar(&o.switches, "switches", false,
		"measure by how much kinds of samples slow down threads that wait for each other, only")
	flag.BoolVar(&o.offCPU, "off-cpu", false,
		"measure what time off CPU costs next to the peer's, in an emulated machine, only")
	flag.BoolVar(&o.counted, "counted", false,
		"with -switches: in an emulated machine whose time goes by instructions, so that little differs from run to run")
	flag.StringVar(&o.waits, "waits", "", "with -switches or -off-cpu: measure here, with this program that waits")
	flag.BoolVar(&o.redis, "redis", false,
		"measure how many requests redis handles while memory in use is profiled, with and without a limit, only")
	flag.BoolVar(&o.parts, "parts", false, "measure where the agent's CPU time goes, by a recording of it, only")
	flag.StringVar(&o.keep, "keep", "", "with -parts: write the recordings to this folder")
	only := flag.String("only", "", "a regular expression of the titles of the parts to run")
	frames := flag.String("frames", "1,5,21,61,121,990", "depths of the stacks; Pyroscope keeps 1,000 frames")
	flag.IntVar(&o.rate, "rate", 99, "samples per second and CPU")
	flag.IntVar(&o.rounds, "rounds", 0, "how often each profiler takes its turn; 0: 3, and 2 with -quick")
	flag.IntVar(&o.slowRounds, "slowdown-rounds", 10,
		"how often the time of fixed work is compared without and with each profiler")
	flag.DurationVar(&o.interval, "interval", 5*time.Second,
		"how often profilers report where costs are measured; the default is the peer's")
	flag.DurationVar(&o.time, "time", 0, "of one measurement; 0: 10s, 1.5s with -quick, and 1m with -resident")
	flag.DurationVar(&o.warm, "warm", 8*time.Second,
		"of a workload, before an agent's cost is measured: its first report included")
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
	if err := o.check(); err != nil {
		return o, err
	}
	o.frames, err = parseDepths(*frames)
	return o, err
}

// check refuses invalid options.
func (o *options) check() error {
	switch {
	case o.rate < 1:
		return fmt.Errorf("-rate %d: at least one sample a second is needed", o.rate)
	case o.rounds < 1:
		return fmt.Errorf("-rounds %d: at least one is needed", o.rounds)
	case o.interval < time.Second:
		return fmt.Errorf("-interval %v: profilers report once a second at most", o.interval)
	case o.time <= 0:
		return fmt.Errorf("-time %v: a measurement takes some time", o.time)
	}
	if least := flushTime(o.interval); o.warm < least {
		return fmt.Errorf("-warm %v: the first report, which reads everything, would count; %v or more is needed",
			o.warm, least)
	}
	if o.languages && o.peerIsAlloy {
		return errors.New("-languages: how Alloy marks the functions of scripts is not known here; " +
			"its engine can be compared, opentelemetry-ebpf-profiler")
	}
	if o.keep != "" && !o.parts {
		return errors.New("-keep: only -parts records the profilers")
	}
	if err := o.checkMachine(); err != nil {
		return err
	}
	if o.parts && o.peer != "" && !o.peerIsHeadwater {
		return fmt.Errorf("-parts: the functions of %s are not known; "+
			"another build of Headwater can be compared, with -peer-is-headwater", filepath.Base(o.peer))
	}
	return nil
}

func (o *options) setDefaults(rounds int, length time.Duration) {
	if o.rounds == 0 {
		o.rounds = rounds
	}
	if o.time == 0 {
		o.time = length
	}
}

// command is the given command line, with binaries' names instead of paths.
func (o *options) command() string {
	command := "integration/lab/run bench"
	flag.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "peer", "binary":
			value = filepath.Base(value)
		case "record", "keep":
			return // it does not affect the measurement
		}
		if value == "true" {
			command += " -" + f.Name
			return
		}
		if strings.ContainsAny(value, " {}'") {
			value = "'" + value + "'"
		}
		command += fmt.Sprintf(" -%s %s", f.Name, value)
	})
	return command
}

// contenders returns the profilers to compare, ours first.
func (o *options) contenders() []contender {
	ours := contender{name: "headwater", binary: o.binary, arguments: headwaterArguments, config: hostConfig}
	switch {
	case o.peer == "":
		return []contender{ours}
	case o.peerIsHeadwater:
		other := ours
		other.name, other.binary = "other", o.peer
		return []contender{ours, other}
	case o.peerIsAlloy:
		return []contender{ours, {
			name: "alloy", binary: o.peer, arguments: alloyArguments, config: alloyConfig, tracefs: true, unjudged: true,
		}}
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
