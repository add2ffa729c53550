package compare

import (
	"math"

	"github.com/headwater/headwater/flame/export"
)

// amount is a sum of samples, with its variance. The sum varies with the number and the values of its samples: a few
// long waits are few samples, however long they are. Its variance is the sum of the squares of the values, as for a
// compound Poisson process. If the values are not known one by one, squares is an upper bound.
type amount struct {
	value   float64
	samples float64 // number of samples taken
	squares float64
}

// amountOf returns a, with values multiplied by scale.
func amountOf(a export.Amount, scale float64) amount {
	return amount{a.Value * scale, a.Samples, a.Squares * scale * scale}
}

func (a amount) plusAmount(b amount) amount {
	return amount{a.value + b.value, a.samples + b.samples, a.squares + b.squares}
}

// isLess returns a without its part b.
func (a amount) isLess(b amount) amount {
	out := amount{max(0, a.value-b.value), max(0, a.samples-b.samples), max(0, a.squares-b.squares)}
	if out.value < roundOff*a.value || out.squares == 0 {
		return amount{}
	}
	return out
}

// roundOff is the largest relative difference of equal sums.
const roundOff = 1e-9

// effective returns the number of equal samples with the same sum and variance.
func (a amount) effective() float64 {
	if a.squares == 0 {
		return 0
	}
	return a.value * a.value / a.squares
}

// sizeOf returns the value of one effective sample.
func (a amount) sizeOf() float64 {
	if a.value == 0 {
		return 0
	}
	return a.squares / a.value
}

// isEven reports whether all samples have the same value, as samples of a clock have.
func (a amount) isEven() bool { return a.effective() >= evenly*a.samples }

const evenly = 0.99

// round returns a number of samples as an integer. Weights may make it fractional.
func round(samples float64) int64 { return int64(math.Round(samples)) }
