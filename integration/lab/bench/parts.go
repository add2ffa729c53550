package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// partCosts divides the agents' CPU time into parts while a workload runs, based on recordings that Headwater makes of
// the agents.
type partCosts struct {
	Work  string     `json:"work"`
	Parts []partCost `json:"parts"`
}

// partCost is the CPU time of one part, in seconds per minute, one value per round.
type partCost struct {
	Name  string    `json:"name"`
	Ours  []float64 `json:"headwater"`
	Other []float64 `json:"other,omitempty"` // of the build to compare with
}

// agentPart is the part of an agent's work in functions with certain names.
type agentPart struct {
	name      string
	functions *regexp.Regexp
}

// allParts is the name of the sum of all parts, otherPart of the rest outside agentParts.
const allParts, otherPart = "all", "other"

const (
	module = `^github\.com/headwater/headwater/`
	core   = module + `(ebpf|flame)/(\w+/)*` // a build to compare with may have the package in another folder
)

// agentParts are searched in this order, each in the whole stack.
var agentParts = []agentPart{
	{"memory given back, garbage collected", regexp.MustCompile(
		core + `footprint\.|^runtime\.(gcBgMarkWorker|gcAssistAlloc|bgsweep|bgscavenge|GC|gcStart)\b`)},
	{"profiles encoded", regexp.MustCompile(core + `pprof\.Encode`)},
	{"folded for the page", regexp.MustCompile(core + `(tree|trie)\.`)},
	{"delivery", regexp.MustCompile(module + `component/pyroscope/write\b`)},
	{"addresses named", regexp.MustCompile(core + `symbol\b`)},
	{"profiles made of stacks", regexp.MustCompile(core + `profile\.\(\*Builder\)\.[cC]ollect|` + core + `pprof\.`)},
	{"rows built and written", regexp.MustCompile(core + `(unwindtable|tablestore|ehframe|cfi|gopclntab|stackheight)\b`)},
	{"stacks completed", regexp.MustCompile(core + `sampler\.\(\*completer\)`)},
	{"processes followed", regexp.MustCompile(core + `(process|procfs|elffile)\b`)},
	{"samples counted", regexp.MustCompile(core + `profile\.\(\*Builder\)\.Add\b`)},
	{"samples read", regexp.MustCompile(core + `(sampler|kernel)\b`)},
	{"the Go scheduler", regexp.MustCompile(`^runtime\.(mcall|schedule|findRunnable|sysmon|mstart\d?|usleep)\b`)},
}

// measureParts measures the parts of the agents' CPU time, in turn.
func measureParts(o options, dir string, save func(any) error) error {
	w, err := newWorkshop(dir, []int{costlyFrames})
	if err != nil {
		return err
	}
	b := newBench(o, w)
	var all []partCosts
	for _, load := range b.work {
		if !o.only.MatchString(load.title) {
			continue
		}
		costs := newPartCosts(load.title)
		recordings := make([][]*profile.Profile, len(b.profilers))
		for round := range b.rounds {
			for place := range b.profilers {
				at := inTurn(round, place, len(b.profilers))
				fmt.Fprintf(os.Stderr, "%s, round %d of %d: %s\n", load.title, round+1, b.rounds, b.profilers[at].name)
				recorded, err := b.recordAgent(at, load, dir)
				if err != nil {
					return fmt.Errorf("%s: %w", load.title, err)
				}
				recordings[at] = append(recordings[at], recorded)
				costs.addSeconds(at, secondsOf(recorded, b.costTime()))
			}
		}
		costs.write()
		if err := o.keepRecordings(load.title, recordings); err != nil {
			return err
		}
		all = append(all, costs)
		if err := save(all); err != nil {
			return err
		}
	}
	return nil
}

func newPartCosts(work string) partCosts {
	costs := partCosts{Work: work}
	for _, p := range agentParts {
		costs.Parts = append(costs.Parts, partCost{Name: p.name})
	}
	costs.Parts = append(costs.Parts, partCost{Name: otherPart}, partCost{Name: allParts})
	return costs
}

// addSeconds records the CPU time of the parts for the first contender, or the second.
func (c *partCosts) addSeconds(contender int, seconds map[string]float64) {
	for i := range c.Parts {
		p := &c.Parts[i]
		values := []*[]float64{&p.Ours, &p.Other}[contender]
		*values = append(*values, seconds[p.Name])
	}
}

// recordAgent records an agent once, after the first report, which reads all files.
func (b *bench) recordAgent(i int, load costlyWork, dir string) (*profile.Profile, error) {
	p, err := b.launch(i, settings{rate: b.rate, interval: b.interval})
	if err != nil {
		return nil, err
	}
	defer p.stopProfiler()
	stop, err := load.start()
	if err != nil {
		return nil, err
	}
	defer stop()
	time.Sleep(b.warm)
	file := filepath.Join(dir, "agent.pb.gz")
	recording := exec.Command(b.binary, "record", "-p", fmt.Sprint(p.pid), "-F", "997", "-d", b.costTime().String(),
		"-o", file)
	if out, err := recording.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("headwater record: %w\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return profile.ParseData(data)
}

// secondsOf returns the CPU time in a recording by part, in seconds per minute.
func secondsOf(recorded *profile.Profile, length time.Duration) map[string]float64 {
	seconds := map[string]float64{}
	for _, s := range recorded.Sample {
		took := float64(s.Value[len(s.Value)-1]) / 1e9 / length.Minutes()
		seconds[partOf(s)] += took
		seconds[allParts] += took
	}
	return seconds
}

// keepRecordings merges the recordings of each contender and writes them to the folder of -keep: WORK.now.pb.gz, and
// WORK.before.pb.gz for the other build.
func (o *options) keepRecordings(work string, recordings [][]*profile.Profile) error {
	if o.keep == "" {
		return nil
	}
	for i, rounds := range recordings {
		whole, err := profile.Merge(rounds)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := whole.Write(&b); err != nil {
			return err
		}
		name := strings.ReplaceAll(work, "/", "_") + []string{".now", ".before"}[i] + ".pb.gz"
		if err := os.WriteFile(filepath.Join(o.keep, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// partOf returns the part that a sample belongs to.
func partOf(s *profile.Sample) string {
	for _, p := range agentParts {
		for _, l := range s.Location {
			for _, line := range l.Line {
				if line.Function != nil && p.functions.MatchString(line.Function.Name) {
					return p.name
				}
			}
		}
	}
	return otherPart
}

// write prints the parts of the CPU time.
func (c *partCosts) write() {
	fmt.Printf("%s, CPU time of the agent in s/min\n", c.Work)
	for _, p := range c.Parts {
		fmt.Printf("%38s %8.2f", p.Name, median(p.Ours))
		if len(p.Other) > 0 {
			fmt.Printf(" %8.2f", median(p.Other))
		}
		fmt.Println()
	}
	fmt.Println()
}
