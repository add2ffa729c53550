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

// side is all runs of one side, and what functions have of them.
type side struct {
	Side
	runs      []run
	functions map[key]amount // of all runs
	all       amount
	unit      string  // of values
	of        string  // type of values: cpu, offcpu; "" if no profile says
	per       float64 // what values are divided by
	lacking   float64 // part of its samples that a function may lack, beyond what counts as a change
}

// run is a Run and what its values are divided by.
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

// newSide adds up runs, which did counts units of work.
func newSide(runs []*Run, counts []float64, o Options) (*side, error) {
	if len(runs) == 0 {
		return nil, errors.New("there is none")
	}
	s := &side{functions: map[key]amount{}, unit: runs[0].unit}
	for i, r := range runs {
		if err := s.add(r, counts[i], o); err != nil {
			return nil, err
		}
	}
	s.Samples, s.Value = round(s.all.samples), s.all.value
	for _, a := range s.functions {
		s.largest = max(s.largest, a.size())
	}
	return s, s.checkLost(runs, o)
}

// add counts a run, which did units of work.
func (s *side) add(r *Run, units float64, o Options) error {
	if s.unit != r.unit {
		return errors.New("it counts " + s.unit + " and " + r.unit)
	}
	if s.of != "" && r.of != "" && s.of != r.of {
		return errors.New("it is of " + s.of + " and of " + r.of)
	}
	s.of = cmp.Or(s.of, r.of)
	for k, a := range r.functions {
		s.functions[k] = s.functions[k].plus(a)
	}
	s.all = s.all.plus(r.all)
	s.Runs++
	s.Seconds += r.seconds
	s.Count += units
	per, err := o.Per.of(r.seconds, r.all.value, units)
	s.per += per
	s.runs = append(s.runs, run{r.functions, per})
	return err
}

// checkLost sets which part of the samples were lost, if each run knows, and refuses more than o allows.
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
	s.Lost, s.lacking = &part, max(0, part-o.AtLeast)
	if part > o.MaxLost {
		return fmt.Errorf("%.1f %% of the samples that were due on its host were lost, more than %.4g %%: what it says of "+
			"functions is not certain enough to compare", 100*part, 100*o.MaxLost)
	}
	return nil
}

// size is the value of a sample of a function that has a on this side and other on the other one. That there is none of
// it here says that there are few as large as on the other side.
func (s *side) size(a, other amount) float64 {
	switch {
	case a.value > 0:
		return a.size()
	case s.all.isEven(): // a clock's are as large as that of all others
		return max(s.all.size(), other.size())
	}
	return other.size()
}

// overdispersion is how many times as much a number of effective samples varies as a count does, for a function that
// differs by that spread between runs: divided by it, the number bounds the function as well as a count does.
func (s *side) overdispersion(samples, spread float64) float64 {
	return 1 + spread*spread*samples/float64(len(s.runs))
}

// rename takes the program that only s has to be the one that only other has: two builds to compare often have two
// names. It returns both, if there are two.
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

// program returns the file with most of those that only s has; "" if there is none, or if it is a library.
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

// spreadOf is how much functions differ between runs of both sides, as a part of their time, beyond the error of
// counting; false if no side has two runs.
func spreadOf(sides ...*side) (spread float64, ok bool) {
	var d dispersion
	for _, s := range sides {
		for f := range s.functions {
			d.add(s, f, 0)
		}
		ok = ok || len(s.runs) > 1
	}
	return d.spread(), ok
}

// unlikely is how seldom a function differs by chance as much as one that has a spread of its own.
const unlikely = 0.01

// ownSpread is how much a function differs between runs of both sides: as all do, unless it differs by so much more
// that this is no chance. What the kernel does for other programs, or once in some runs, is like that.
func ownSpread(f key, ofAll float64, sides ...*side) float64 {
	var d dispersion
	for _, s := range sides {
		d.add(s, f, ofAll)
	}
	if d.free == 0 || mathext.GammaIncRegComp(d.free/2, d.chi/2) >= unlikely {
		return ofAll
	}
	return max(ofAll, d.spread())
}

// dispersion is how much functions differ between runs.
type dispersion struct {
	beyond, squares float64 // of the moment estimator of the variance of a mixed Poisson distribution
	chi, free       float64 // chi-squared and its degrees of freedom, for functions with a known spread
}

// add counts a function of a side, which is to have that spread.
func (d *dispersion) add(s *side, f key, spread float64) {
	all, k := s.functions[f], float64(len(s.runs))
	if len(s.runs) < 2 || all.value == 0 {
		return
	}
	for _, r := range s.runs {
		want := all.effective() * r.per / s.per
		difference := r.functions[f].value/all.size() - want
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
