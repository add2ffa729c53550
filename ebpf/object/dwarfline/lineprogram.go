package dwarfline

import (
	"cmp"
	"fmt"
	"slices"
)

// sequence is a contiguous address range of a line program. The program can run from the start of
// any sequence, because the end of a sequence, DW_LNE_end_sequence, resets its state.
type sequence struct {
	low, high uint64
	start     uint32 // offset of its first opcode
}

const sequenceSize = 24

// maxSequences bounds the memory of one unit's sequences.
const maxSequences = 2 << 20

// Opcodes of the line program (DWARF 5 sections 6.2.5.2 and 6.2.5.3).
const (
	lnsCopy           = 1
	lnsAdvancePC      = 2
	lnsAdvanceLine    = 3
	lnsSetFile        = 4
	lnsConstAddPC     = 8
	lnsFixedAdvancePC = 9
	lneEndSequence    = 1
	lneSetAddress     = 2
	lneDefineFile     = 3
)

// row is a row of the line table that the program produces.
type row struct {
	addr uint64
	op   uint64 // number of the operation in the instruction, for VLIW
	file uint64
	line uint64
}

// runSequence executes the program from an opcode on to the end of the sequence and calls use for each row,
// except the end row. It returns the address at the end of the sequence and the start of the next
// sequence.
func (t *lineTable) runSequence(
	start uint64, w *work, define func(at uint64), use func(*row),
) (end, next uint64, err error) {
	steps := 0
	defer func() { err = firstError(err, w.spend(steps%stepsAtOnce)) }()
	c := newCursor(".debug_line", t.data, t.unit.Order, start)
	r := row{file: 1, line: 1}
	for c.more() {
		if steps++; steps%stepsAtOnce == 0 {
			if err := w.spend(stepsAtOnce); err != nil {
				return r.addr, c.at, err
			}
		}
		switch op := c.u8(); {
		case op >= t.opcodeBase:
			adjusted := op - t.opcodeBase
			t.advance(&r, uint64(adjusted/t.lineRange))
			r.line += uint64(int64(t.lineBase) + int64(adjusted%t.lineRange))
			use(&r)
		case op == 0:
			if t.extended(&c, &r, define) {
				return r.addr, c.at, c.err
			}
		case op == lnsCopy:
			use(&r)
		case op == lnsAdvancePC:
			t.advance(&r, c.uleb())
		case op == lnsAdvanceLine:
			r.line += uint64(c.sleb())
		case op == lnsSetFile:
			r.file = c.uleb()
		case op == lnsConstAddPC:
			t.advance(&r, uint64((255-t.opcodeBase)/t.lineRange))
		case op == lnsFixedAdvancePC:
			r.addr += c.fixed(2)
			r.op = 0
		default: // not needed, or unknown: skip the operands
			for range t.opcodeLengths[op-1] {
				c.skipLEB()
			}
		}
	}
	if c.err == nil {
		c.failWith("the line program ends inside a sequence")
	}
	return r.addr, c.at, c.err
}

// advance moves the address by a number of operations (section 6.2.5.1).
func (t *lineTable) advance(r *row, operations uint64) {
	if t.maxOperations == 1 {
		r.addr += uint64(t.minInstruction) * operations
		return
	}
	n := r.op + operations
	r.addr += uint64(t.minInstruction) * (n / uint64(t.maxOperations))
	r.op = n % uint64(t.maxOperations)
}

// extended executes an extended opcode and reports whether it ends the sequence.
func (t *lineTable) extended(c *cursor, r *row, define func(at uint64)) (ends bool) {
	length := c.uleb()
	if length > uint64(len(c.data))-c.at {
		c.failWith("an opcode's length points past the end of the table")
		return false
	}
	next := c.at + length
	if length == 0 {
		return false
	}
	switch c.u8() {
	case lneEndSequence:
		ends = true
	case lneSetAddress:
		switch size := length - 1; size {
		case 2, 4, 8:
			r.addr, r.op = c.fixed(uint8(size)), 0
		default:
			c.failWith("an address of unknown size")
		}
	case lneDefineFile:
		define(c.at)
	}
	if c.err == nil {
		c.at = next
	}
	return ends
}

// findSequences runs the whole program once and collects its sequences. It cuts or drops
// overlapping sequences, as BFD does.
func (t *lineTable) findSequences(w *work) error {
	var first error
	define := func(at uint64) {
		if t.version < 5 && len(t.files) < maxFiles {
			t.files = append(t.files, uint32(at))
		}
	}
	for at := t.program; at < uint64(len(t.data)); {
		low, rows := uint64(1<<64-1), 0
		end, next, err := t.runSequence(at, w, define, func(r *row) {
			low = min(low, r.addr)
			rows++
		})
		if rows > 0 && low < end && low != 0 {
			if len(t.sequences) == maxSequences {
				first = fmt.Errorf("%w: more than %d sequences of lines", ErrTooMuchWork, maxSequences)
				break
			}
			t.sequences = append(t.sequences, sequence{low: low, high: end, start: uint32(at)})
		}
		if first = err; err != nil {
			break
		}
		at = next
	}
	t.sortSequences()
	return first
}

func (t *lineTable) sortSequences() {
	slices.SortStableFunc(t.sequences, func(a, b sequence) int {
		return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.high, a.high))
	})
	kept := t.sequences[:0]
	last := uint64(0)
	for _, s := range t.sequences {
		if s.low < last {
			if s.high <= last {
				continue
			}
			s.low = last
		}
		last = s.high
		kept = append(kept, s)
	}
	t.sequences = slices.Clip(kept)
}

// rowAt returns the row that covers an address: among the rows up to the address, the last one with
// the highest address.
func (t *lineTable) rowAt(addr uint64, w *work) (found row, ok bool, err error) {
	i, exact := slices.BinarySearchFunc(t.sequences, addr,
		func(s sequence, addr uint64) int { return cmp.Compare(s.low, addr) })
	if !exact {
		i--
	}
	if i < 0 || addr >= t.sequences[i].high {
		return row{}, false, nil
	}
	_, _, err = t.runSequence(uint64(t.sequences[i].start), w, func(uint64) {}, func(r *row) {
		if r.addr <= addr && (!ok || r.addr > found.addr || r.addr == found.addr && r.op >= found.op) {
			found, ok = *r, true
		}
	})
	return found, ok, err
}
