package ehframe

import (
	"fmt"
	"math"
)

// factored returns n times the data alignment factor.
func (p *Program) factored(r *reader, n uint64) int64 {
	if n > math.MaxInt64 {
		r.failWith(fmt.Errorf("%w: offset beyond the address space", ErrInvalid))
		return 0
	}
	return p.scale(r, int64(n))
}

// factoredSigned reads a signed number and returns it times the data
// alignment factor.
func (p *Program) factoredSigned(r *reader) int64 { return p.scale(r, r.sleb()) }

func (p *Program) scale(r *reader, n int64) int64 {
	factor := p.current.DataAlign
	product := n * factor
	if n != 0 && (product/n != factor || n == -1 && factor == math.MinInt64) {
		r.failWith(fmt.Errorf("%w: offset beyond the address space", ErrInvalid))
		return 0
	}
	return product
}
