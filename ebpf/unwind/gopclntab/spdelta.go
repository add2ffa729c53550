package gopclntab

import "fmt"

// HasSPDeltas reports whether the table has f's stack pointer deltas. They are missing for code
// that Go's tools did not compile: C functions that the linker added.
func (f *Func) HasSPDeltas() bool { return f.pcsp != 0 }

// Limits on a value table.
const (
	maxSteps  = 1 << 17 // entries; the largest known functions have some thousands
	maxVarint = 5       // bytes of a 32-bit number with seven bits in each
)

// SPDeltas calls yield for the ranges [start, end) of f's instructions, in ascending order and
// without gaps, until yield returns false. Before an instruction in the range is executed, the
// stack pointer is delta bytes below its value at f's first instruction. The ranges may end before
// f.End; the rest is padding. The error is ErrInvalid or a read error.
//
// A value table consists of pairs of numbers in base 128, least significant digit first: the
// increment of the value, with the sign in the lowest bit, and the number of units of the
// instruction size that the value covers. The value starts at -1. An increment of zero ends the
// table, except in the first pair.
func (r *Reader) SPDeltas(f *Func, yield func(start, end uint64, delta int64) bool) error {
	err := r.values(f, f.pcsp, func(start, end uint64, value int32) bool { return yield(start, end, int64(value)) })
	if err != nil {
		return fmt.Errorf("stack pointer of the function at %#x: %w", f.Entry, err)
	}
	return nil
}

// values yields the ranges of f's instructions from the value table at offset table. 0 means that
// there is no table.
func (r *Reader) values(f *Func, table uint32, yield func(start, end uint64, value int32) bool) error {
	if table == 0 {
		return nil
	}
	at, pc, value := r.t.pcs.start+uint64(table), f.Entry, int32(-1)
	for step := range maxSteps {
		b, err := r.pcs.someBytes(at, 2*maxVarint)
		if err != nil {
			return err
		}
		growth, n := varint(b)
		if n > 0 && growth == 0 && step > 0 {
			return nil
		}
		units, m := varint(b[n:])
		if n == 0 || m == 0 || units == 0 {
			return ErrInvalid
		}
		at += uint64(n + m)
		value += int32(growth>>1) ^ -int32(growth&1)
		end := pc + uint64(units)*r.t.quantum
		if end > f.End || end < pc {
			return ErrInvalid
		}
		if !yield(pc, end, value) {
			return nil
		}
		pc = end
	}
	return ErrInvalid
}

// varint decodes a number and returns its length n. n is 0 if there is no valid number.
func varint(b []byte) (v uint32, n int) {
	for i := range min(len(b), maxVarint) {
		v |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
