package main

import (
	"fmt"
	"slices"
)

// interval contains a median with a confidence of at least 95 %.
type interval struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// medianInterval returns a confidence interval for the median of the values' distribution. It uses only the order of
// the values: each is below the median with probability one half, for any distribution (an inverted sign test). It
// returns nil for fewer than six values, which are too few.
func medianInterval(values []float64) *interval {
	n := len(values)
	const bothTails = 0.05
	// tail is the probability that at most k values are below the median.
	tail, term, k := 0.0, 1.0, 0 // term: n over k, by 2^n
	for range n {
		term /= 2
	}
	for ; k < n/2 && 2*(tail+term) <= bothTails; k++ {
		tail += term
		term *= float64(n-k) / float64(k+1)
	}
	if k == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	return &interval{sorted[k-1], sorted[n-k]}
}

// String formats the interval for the table.
func (i *interval) String() string {
	if i == nil {
		return "too few rounds"
	}
	return fmt.Sprintf("%.2f to %.2f", i.Least, i.Most)
}
