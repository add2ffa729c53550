package compare

import (
	"math"

	"github.com/headwater/headwater/ebpf/export"
)

// amount is what samples have together. It varies as the number and the values of samples do: a few long waits are as
// many as they are, however long. The variance of the sum is the sum of the squares of the values, as for a compound
// Poisson process; where these are not known one by one, squares are the most that they can be.
type amount struct {
	value   float64
	samples float64 // that were counted
	squares float64
}

// amountOf returns an amount, whose values are multiplied by scale.
func amountOf(a export.Amount, scale float64) amount {
	return amount{a.Value * scale, a.Samples, a.Squares * scale * scale}
}

func (a amount) plus(b amount) amount {
	return amount{a.value + b.value, a.samples + b.samples, a.squares + b.squares}
}

// less returns a without b, which is a part of it.
func (a amount) less(b amount) amount {
	out := amount{max(0, a.value-b.value), max(0, a.samples-b.samples), max(0, a.squares-b.squares)}
	if out.value < roundOff*a.value || out.squares == 0 {
		return amount{}
	}
	return out
}

// roundOff is what a difference of equal sums may be, as a part of these.
const roundOff = 1e-9

// effective returns how many samples of one value would vary as much.
func (a amount) effective() float64 {
	if a.squares == 0 {
		return 0
	}
	return a.value * a.value / a.squares
}

// size is the value of one of those.
func (a amount) size() float64 {
	if a.value == 0 {
		return 0
	}
	return a.squares / a.value
}

// isEven reports whether all samples have one value, as those of a clock do.
func (a amount) isEven() bool { return a.effective() >= evenly*a.samples }

const evenly = 0.99

// round is how many samples a number of them is, which weights may make uneven.
func round(samples float64) int64 { return int64(math.Round(samples)) }
