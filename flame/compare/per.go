package compare

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Per selects the divisor of a function's time.
type Per string

// The divisors of values.
const (
	PerSecond Per = "second" // wall clock time, for a host with the same load
	PerRun    Per = "run"    // number of runs, for a program that did the same work twice
	PerCPU    Per = "cpu"    // all samples of the profile: a function's value is its share, regardless of the load
	PerCount  Per = "count"  // Options.Counts: the cost of a unit of work, such as a request
)

// SetPer sets Per and Counts from text as a user writes it: "second", "run", "cpu" or "count=N[,N...]". The error
// describes the mistake in the text.
func (o *Options) SetPer(text string) error {
	per, counts, has := strings.Cut(text, "=")
	o.Per, o.Counts = Per(per), nil
	if !has || o.Per != PerCount {
		if has {
			return fmt.Errorf("per %q: only count has a number, as in count=1000", text)
		}
		return o.checkPer()
	}
	for word := range strings.SplitSeq(counts, ",") {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return fmt.Errorf("per %q: %q is no number of units of work, as in count=1000", text, word)
		}
		o.Counts = append(o.Counts, n)
	}
	return o.checkPer()
}

// checkPer returns an error if Per is unknown, or if Counts are missing or invalid.
func (o Options) checkPer() error {
	switch o.Per {
	case PerSecond, PerRun, PerCPU:
		return nil
	case PerCount:
	default:
		return fmt.Errorf("per %q is unknown, valid values are: second, run, cpu, count=N", o.Per)
	}
	if len(o.Counts) == 0 {
		return errors.New("per count needs the number of units of work that each profile has, as in count=1000")
	}
	for _, n := range o.Counts {
		if !(n > 0) || math.IsInf(n, 0) {
			return fmt.Errorf("the number of units of work must be above 0, got %v", n)
		}
	}
	return nil
}

// countsOf returns the units of work of each profile of the base, and of each new profile.
func (o Options) countsOf(base, after int) (ofBase, ofNew []float64, err error) {
	if o.Per != PerCount {
		return make([]float64, base), make([]float64, after), nil
	}
	repeat := func(n float64, times int) (all []float64) {
		for range times {
			all = append(all, n)
		}
		return all
	}
	switch n := o.Counts; len(n) {
	case 1:
		return repeat(n[0], base), repeat(n[0], after), nil
	case base + after:
		return n[:base], n[base:], nil
	case 2:
		return repeat(n[0], base), repeat(n[1], after), nil
	}
	return nil, nil, fmt.Errorf("%d numbers of units of work do not fit %d and %d profiles: "+
		"pass one for all profiles, one per side, or one per profile", len(o.Counts), base, after)
}

// divide returns the divisor for the values of a profile with the given duration in seconds, value and units of work.
func (p Per) divide(seconds, value, units float64) (float64, error) {
	switch {
	case p == PerRun:
		return 1, nil
	case p == PerCount:
		return units, nil
	case p == PerCPU && value <= 0:
		return 0, errors.New("it has no samples")
	case p == PerCPU:
		return value, nil
	case seconds <= 0:
		return 0, errors.New("it has no duration; compare per run or per cpu")
	}
	return seconds, nil
}
