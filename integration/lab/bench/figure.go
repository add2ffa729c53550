package main

import (
	"slices"
)

// figure is a line of the table: a quantity that is measured for each profiler.
type figure struct {
	Key   string  `json:"key"`
	Title string  `json:"title"`
	Unit  string  `json:"unit"`
	Aim   *target `json:"target,omitempty"`
}

// target is a goal.
type target struct {
	Kind  string  `json:"kind"` // ratio: maximum of ours to the peer's; most, least: bounds of ours
	Value float64 `json:"value"`
}

func ratio(v float64) *target  { return &target{"ratio", v} }
func atMost(v float64) *target { return &target{"most", v} }
func least(v float64) *target  { return &target{"least", v} }

// results are the values of figures, one per round.
type results struct {
	contenders int
	values     map[string][][]float64      // by key, by contender
	reasons    map[string][]map[string]int // reasons for incomplete stacks, by key, by contender
}

func newResults(contenders int) *results {
	return &results{contenders: contenders, values: map[string][][]float64{}, reasons: map[string][]map[string]int{}}
}

// addValue records a value.
func (r *results) addValue(key string, contender int, value float64) {
	if r.values[key] == nil {
		r.values[key] = make([][]float64, r.contenders)
	}
	r.values[key][contender] = append(r.values[key][contender], value)
}

// addShare records the share of complete stacks, and the reasons for incomplete ones.
func (r *results) addShare(key string, contender int, s share) {
	percent, ok := s.percent()
	if !ok {
		return
	}
	r.addValue(key, contender, percent)
	if r.reasons[key] == nil {
		r.reasons[key] = make([]map[string]int, r.contenders)
	}
	if r.reasons[key][contender] == nil {
		r.reasons[key][contender] = map[string]int{}
	}
	for reason, n := range s.reasons {
		r.reasons[key][contender][reason] += n
	}
}

// median returns the median of a figure's values.
func (r *results) median(key string, contender int) (float64, bool) {
	values := r.values[key]
	if contender >= len(values) || len(values[contender]) == 0 {
		return 0, false
	}
	return median(values[contender]), true
}

// ratio returns the median over the rounds of the ratio of the first contender to the second: they take turns, so the
// state of the machine affects both in the same way.
func (r *results) ratio(key string) (float64, bool) {
	values := r.values[key]
	if len(values) < 2 {
		return 0, false
	}
	var ratios []float64
	for i := range min(len(values[0]), len(values[1])) {
		if values[1][i] != 0 {
			ratios = append(ratios, values[0][i]/values[1][i])
		}
	}
	return median(ratios), len(ratios) > 0
}

// isMet reports whether a target was reached, if known.
func (r *results) isMet(f figure) (met, known bool) {
	if f.Aim == nil {
		return false, false
	}
	value, ok := r.median(f.Key, 0)
	if f.Aim.Kind == "ratio" {
		value, ok = r.ratio(f.Key)
	}
	if f.Aim.Kind == "least" {
		return value >= f.Aim.Value, ok
	}
	return value <= f.Aim.Value, ok
}

// median returns the median of values, or 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
