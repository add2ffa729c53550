package main

import (
	"fmt"
	"slices"
)

// interval holds a median with a confidence of 95 % or more.
type interval struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// medianInterval returns where the median of what the values are drawn from lies, by
// their order alone: each is below that median with a chance of one half, whatever
// their distribution (the sign test turned round). Fewer than six values cannot say.
func medianInterval(values []float64) *interval {
	n := len(values)
	const bothTails = 0.05
	// tail is the chance that no more than k values are below the median.
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

// String is the interval as the table shows it.
func (i *interval) String() string {
	if i == nil {
		return "too few rounds"
	}
	return fmt.Sprintf("%.2f to %.2f", i.Least, i.Most)
}
