package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
	"gonum.org/v1/gonum/mathext"
)

// side holds all runs of one side, and the sums of their functions.
type side struct {
	Side
	runs       []run
	functions  map[key]amount // sum of all runs
	all        amount
	incomplete amount  // of incomplete stacks
	nameless   amount  // of methods that were not read in time
	unknown    float64 // share of the values that any function may lack
	total      bool    // functions include their callees
	unit       string  // unit of values
	of         string  // type of values: cpu, offcpu; "" if unknown
	per        float64 // divisor of values
	lacking    float64 // share of its samples that a function may lack, less Options.AtLeast
	// hidden is the value of samples with unknown functions, beyond the share of such samples on the other side: one
	// function may be missing in all of these samples.
	hidden float64
}

// run holds the functions of a Run, and the divisor of its values.
type run struct {
	functions map[key]amount
	per       float64
}

// runsOf counts the samples of profiles.
func runsOf(profiles []*profile.Profile, total bool) (runs []*Run, err error) {
	for _, p := range profiles {
		r, err := NewRun(p, total)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// newSide adds up runs. counts holds the units of work of each run.
func newSide(runs []*Run, counts []float64, o Options) (*side, error) {
	if len(runs) == 0 {
		return nil, errors.New("there is no profile")
	}
	s := &side{functions: map[key]amount{}, unit: runs[0].unit}
	for i, r := range runs {
		if err := s.addRun(r, counts[i], o); err != nil {
			return nil, err
		}
	}
	s.Samples, s.Value = round(s.all.samples), s.all.value
	for _, a := range s.functions {
		s.largest = max(s.largest, a.sizeOf())
	}
	if err := s.checkLost(runs, o); err != nil {
		return nil, err
	}
	missing := 0.0
	if s.Lost != nil {
		missing = *s.Lost
	}
	if s.all.value > 0 {
		s.Incomplete = s.incomplete.value / s.all.value
		s.unknown = s.nameless.value / s.all.value
	}
	if s.total {
		s.unknown += s.Incomplete
	}
	missing += s.unknown
	s.lacking = min(max(0, missing-o.AtLeast), 1)
	return s, nil
}

// addRun adds a run with its units of work.
func (s *side) addRun(r *Run, units float64, o Options) error {
	if s.unit != r.unit {
		return errors.New("it counts " + s.unit + " and " + r.unit)
	}
	if s.of != "" && r.of != "" && s.of != r.of {
		return errors.New("it is of " + s.of + " and of " + r.of)
	}
	s.of = cmp.Or(s.of, r.of)
	for k, a := range r.functions {
		s.functions[k] = s.functions[k].plusAmount(a)
	}
	s.all = s.all.plusAmount(r.all)
	s.incomplete = s.incomplete.plusAmount(r.incomplete)
	s.nameless = s.nameless.plusAmount(r.nameless)
	s.total = s.total || r.total
	s.Runs++
	s.Seconds += r.seconds
	s.Count += units
	per, err := o.Per.divide(r.seconds, r.all.value, units)
	s.per += per
	s.runs = append(s.runs, run{r.functions, per})
	return err
}

// checkLost sets the lost share of the samples, if all runs have it, and returns an error if it is more than o allows.
func (s *side) checkLost(runs []*Run, o Options) error {
	var due, lost float64
	for _, r := range runs {
		if r.due == 0 && r.all.samples > 0 {
			return nil
		}
		due += float64(max(r.due, r.lost))
		lost += float64(r.lost)
	}
	if due == 0 {
		return nil
	}
	part := lost / due
	s.Lost = &part
	if part > o.MaxLost {
		return fmt.Errorf("its host lost %.1f %% of the samples, more than %.4g %%: its functions are too uncertain to "+
			"compare", 100*part, 100*o.MaxLost)
	}
	return nil
}

// sizeOf returns the value of a sample of a function with the amount a on this side and other on the other side.
// Without samples on this side, it is the size on the other side: no samples here bound the number of samples of that
// size.
func (s *side) sizeOf(a, other amount) float64 {
	switch {
	case a.value > 0:
		return a.sizeOf()
	case s.all.isEven(): // all samples of a clock have the same value
		return max(s.all.sizeOf(), other.sizeOf())
	}
	return other.sizeOf()
}

// overdispersion returns the factor by which the variance of a number of effective samples exceeds the variance of a
// count, for a function with the given spread between runs. The number divided by this factor bounds the function like
// a count.
func (s *side) overdispersion(samples, spread float64) float64 {
	return 1 + spread*spread*samples/float64(len(s.runs))
}

// rename treats the program that only s has as the program that only other has, as two builds to compare often have two
// names. It returns both names, if there are such programs.
func (s *side) rename(other *side) (names [2]string) {
	was, is := s.program(other), other.program(s)
	if was == "" || is == "" {
		return names
	}
	s.functions = renamed(s.functions, was, is)
	for i := range s.runs {
		s.runs[i].functions = renamed(s.runs[i].functions, was, is)
	}
	return [2]string{was, is}
}

// program returns the file with the largest value among the files that only s has; "" if there is none, or if it is a
// library.
func (s *side) program(other *side) (name string) {
	known := map[string]bool{}
	for k := range other.functions {
		known[k.binary] = true
	}
	values := map[string]float64{}
	for k, a := range s.functions {
		if !known[k.binary] {
			values[k.binary] += a.value
		}
	}
	for _, file := range slices.Sorted(maps.Keys(values)) {
		if name == "" || values[file] > values[name] {
			name = file
		}
	}
	if strings.Contains(name, ".so") || strings.HasPrefix(name, "[") {
		return ""
	}
	return name
}

func renamed(functions map[key]amount, was, is string) map[key]amount {
	out := map[key]amount{}
	for k, a := range functions {
		if k.binary == was {
			k.binary = is
		}
		out[k] = a
	}
	return out
}

// spreadOf returns the relative difference of functions between the runs of a side, beyond the error of counting. ok is
// false if no side has two runs.
func spreadOf(sides ...*side) (spread float64, ok bool) {
	var d dispersion
	for _, s := range sides {
		for f := range s.functions {
			d.addFunction(s, f, 0)
		}
		ok = ok || len(s.runs) > 1
	}
	return d.spread(), ok
}

// unlikely is the probability of a difference by chance below which a function has its own spread.
const unlikely = 0.01

// ownSpread returns the spread of a function between runs: ofAll, unless the function differs by so much more that
// chance is unlikely. Examples are work of the kernel for other programs, and work that only some runs do.
func ownSpread(f key, ofAll float64, sides ...*side) float64 {
	var d dispersion
	for _, s := range sides {
		d.addFunction(s, f, ofAll)
	}
	if d.free == 0 || mathext.GammaIncRegComp(d.free/2, d.chi/2) >= unlikely {
		return ofAll
	}
	return max(ofAll, d.spread())
}

// dispersion sums up the differences of functions between runs.
type dispersion struct {
	beyond, squares float64 // terms of the moment estimator of the variance of a mixed Poisson distribution
	chi, free       float64 // chi-squared and its degrees of freedom, for functions with a known spread
}

// addFunction adds a function of a side. spread is the assumed spread of the function, for chi.
func (d *dispersion) addFunction(s *side, f key, spread float64) {
	all, k := s.functions[f], float64(len(s.runs))
	if len(s.runs) < 2 || all.value == 0 {
		return
	}
	for _, r := range s.runs {
		want := all.effective() * r.per / s.per
		difference := r.functions[f].value/all.sizeOf() - want
		d.beyond += difference*difference*k/(k-1) - want
		d.squares += want * want
		d.chi += difference * difference / (want + spread*spread*want*want)
	}
	d.free += k - 1
}

func (d *dispersion) spread() float64 {
	if d.squares == 0 {
		return 0
	}
	return math.Sqrt(max(0, d.beyond/d.squares))
}
