package compare

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Per says what a function's time is a part of.
type Per string

// What values are divided by.
const (
	PerSecond Per = "second" // of wall clock time: on a host that has the same load
	PerRun    Per = "run"    // nothing, as for a program that did the same work twice
	PerCPU    Per = "cpu"    // all that the profile counts: what a function has is its share, whatever the load
	PerCount  Per = "count"  // Options.Counts: what a unit of work costs, such as a request
)

// SetPer sets Per and Counts as a user writes them: "second", "run", "cpu" or "count=N[,N...]". Its error says what is
// wrong with the text.
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

// checkPer returns an error if Per is unknown, or if Counts are no numbers of units for it.
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

// countsOf returns how many units of work each profile of the base has, and each new one.
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
	return nil, nil, fmt.Errorf("there are %d numbers of units of work for %d and %d profiles: "+
		"say one for all of them, one for each side, or one for each profile", len(o.Counts), base, after)
}

// of is what values of a profile are divided by, which took seconds, has the value and did units of work.
func (p Per) of(seconds, value, units float64) (float64, error) {
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
		return 0, errors.New("it does not say how long it took; compare per run or per cpu")
	}
	return seconds, nil
}
