package compare

import (
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/headwater/headwater/ebpf/export"
)

// key identifies a function in two builds of a program: by name, as addresses and build IDs differ.
type key struct{ name, binary string }

// side is all profiles of one side, and what functions have of them.
type side struct {
	Side
	runs     []run
	samples  map[key]float64 // of all runs
	unit     string          // of values
	per      float64         // what values are divided by
	profiles int
}

// run is one of the profiles.
type run struct {
	samples map[key]float64
	per     float64
}

func newSide(profiles []*profile.Profile, o Options) (*side, error) {
	if len(profiles) == 0 {
		return nil, errors.New("there is none")
	}
	s := &side{samples: map[key]float64{}, profiles: len(profiles)}
	for _, p := range profiles {
		if err := s.add(p, o); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add counts a profile.
func (s *side) add(p *profile.Profile, o Options) error {
	index, err := p.SampleIndexByName("")
	if err != nil {
		return err
	}
	unit, scale, period := p.SampleType[index].Unit, 1.0, 1.0
	if p.Period > 0 && p.PeriodType != nil && p.PeriodType.Unit == unit {
		period = float64(p.Period)
	}
	if unit == "nanoseconds" {
		unit, scale = "seconds", 1e-9
	}
	if s.unit != "" && s.unit != unit {
		return errors.New("it counts " + s.unit + " and " + unit)
	}
	s.unit = unit
	functions, total, err := export.Functions(withoutInterrupts(p))
	if err != nil {
		return err
	}
	r := run{samples: map[key]float64{}}
	for _, f := range functions {
		value := f.Self
		if o.Total {
			value = f.Total
		}
		if value > 0 {
			r.samples[keyOf(&f)] += float64(value) / period
			s.samples[keyOf(&f)] += float64(value) / period
		}
	}
	seconds, value := float64(p.DurationNanos)*1e-9, float64(total)*scale
	s.Samples += int64(math.Round(float64(total) / period))
	s.Seconds += seconds
	s.Value += value
	r.per, err = o.Per.of(seconds, value)
	s.per += r.per
	s.runs = append(s.runs, r)
	return err
}

// of is what values are divided by.
func (p Per) of(seconds, value float64) (float64, error) {
	switch {
	case p == PerRun:
		return 1, nil
	case p == PerCPU && value <= 0:
		return 0, errors.New("it has no samples")
	case p == PerCPU:
		return value, nil
	case seconds <= 0:
		return 0, errors.New("it does not say how long it took; compare per run or per cpu")
	}
	return seconds, nil
}

// worth is the value of a sample for each of what values are for.
func (s *side) worth() float64 {
	if s.Samples == 0 {
		return 1 / s.per
	}
	return s.Value / float64(s.Samples) / s.per
}

// rename takes the program that only s has to be the one that only other has: two builds to compare often have two
// names.
func (s *side) rename(other *side) {
	was, is := s.program(other), other.program(s)
	if was == "" || is == "" {
		return
	}
	s.samples = renamed(s.samples, was, is)
	for i := range s.runs {
		s.runs[i].samples = renamed(s.runs[i].samples, was, is)
	}
}

// program returns the file with most samples of those that only s has; "" if there is none, or if it is a library.
func (s *side) program(other *side) (name string) {
	known := map[string]bool{}
	for k := range other.samples {
		known[k.binary] = true
	}
	samples := map[string]float64{}
	for k, n := range s.samples {
		if !known[k.binary] {
			samples[k.binary] += n
		}
	}
	for _, file := range slices.Sorted(maps.Keys(samples)) {
		if name == "" || samples[file] > samples[name] {
			name = file
		}
	}
	if strings.Contains(name, ".so") || strings.HasPrefix(name, "[") {
		return ""
	}
	return name
}

func renamed(samples map[key]float64, was, is string) map[key]float64 {
	out := map[key]float64{}
	for k, n := range samples {
		if k.binary == was {
			k.binary = is
		}
		out[k] = n
	}
	return out
}

// noSymbol are names of frames that have none: they hold an address, which says nothing about another build.
var noSymbol = regexp.MustCompile(`\+0x[0-9a-f]+$|^0x[0-9a-f]+$`)

// keyOf is the key of a function. All functions of a file that have no name are one.
func keyOf(f *export.Function) key {
	if noSymbol.MatchString(f.Name) {
		return key{"(functions without a name)", f.Where()}
	}
	return key{f.Name, f.Where()}
}

// interrupt are functions of the kernel that an interrupt begins with.
var interrupt = regexp.MustCompile(`^(asm_)?(sysvec_|common_interrupt)|^(handle|__do)_softirqs?$` +
	`|^(el[01].*_irq|gic_handle_irq)`)

// withoutInterrupts returns a profile without the samples that were taken in interrupts.
func withoutInterrupts(p *profile.Profile) *profile.Profile {
	in := map[*profile.Location]bool{}
	for _, l := range p.Location {
		for _, line := range l.Line {
			if line.Function != nil && interrupt.MatchString(line.Function.Name) {
				in[l] = true
			}
		}
	}
	if len(in) == 0 {
		return p
	}
	out := &profile.Profile{SampleType: p.SampleType, DefaultSampleType: p.DefaultSampleType}
	for _, s := range p.Sample {
		interrupted := false
		for _, l := range s.Location {
			interrupted = interrupted || in[l]
		}
		if !interrupted {
			out.Sample = append(out.Sample, s)
		}
	}
	return out
}

// spreadOf is how much functions differ between runs of both sides, as a part of their time, beyond the error of
// counting; false if no side has two runs. It is the moment estimator of the variance of a mixed Poisson distribution.
func spreadOf(sides ...*side) (spread float64, ok bool) {
	var beyond, squares float64
	for _, s := range sides {
		if s.profiles < 2 {
			continue
		}
		ok = true
		k := float64(s.profiles)
		for f, all := range s.samples {
			for _, r := range s.runs {
				want := all * r.per / s.per
				difference := r.samples[f] - want
				beyond += difference*difference*k/(k-1) - want
				squares += want * want
			}
		}
	}
	if squares == 0 {
		return 0, ok
	}
	return math.Sqrt(max(0, beyond/squares)), ok
}
