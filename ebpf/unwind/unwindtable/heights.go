package unwindtable

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"sync"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/stackheight"
	"github.com/headwater/headwater/ebpf/unwind/x86"
)

// Bytes of code around gaps. Some before the page, where loops may start, and more after it, where functions return,
// are analyzed. A long function, as in OpenBLAS, needs up to codeAround. In codeAround before and after the page, calls
// are looked for: functions start at their targets. Without the calls more than 19,000 bytes of Chromium's code, which
// has no call frame information, have wrong rules. In 1 MiB too many bytes only look like calls.
const (
	codeBefore = 1 << 10
	codeAfter  = 8 << 10
	codeAround = 128 << 10
)

// minGap is the minimum size of a gap between functions that may contain a function.
const minGap = 16

// heights makes rows from the code in a page's gaps.
type heights struct {
	b        *builder
	analysis stackheight.Analysis
	called   []uint64 // functions that the code around a gap calls
	rows     []unwind.Row
	found    int // bytes of text with a rule in rows
	bytes    int // bytes of text with a rule from analysis, in the whole page
}

// fillRows adds rows for the gaps of the page from code analysis.
func (h *heights) fillRows(rows []unwind.Row) ([]unwind.Row, error) {
	h.bytes = 0
	b := h.b
	if b.table.sections.Machine != elf.EM_X86_64 || b.table.sections.Go {
		return rows, nil
	}
	for i := 0; i < len(rows); i++ {
		if rows[i].CFA != unwind.CFANone {
			continue
		}
		start, end := int(rows[i].Off), b.size
		if i+1 < len(rows) {
			end = int(rows[i+1].Off)
		}
		afterEntry := i > 0 && rows[i-1].RA() == unwind.RAUndefined
		if end-start < minGap && !afterEntry {
			continue
		}
		before := len(rows)
		var err error
		if rows, err = h.fillGap(rows, start, end); err != nil {
			return nil, err
		}
		i += len(rows) - before
	}
	return rows, nil
}

// fillGap adds rows for the gap [start, end) of the page.
func (h *heights) fillGap(rows []unwind.Row, start, end int) ([]unwind.Row, error) {
	b := h.b
	lo, hi := b.lo+uint64(start), b.lo+uint64(end)
	g := stackheight.Gap{Start: lo, End: hi}
	var err error
	if start == 0 {
		if g.Start, err = b.functionBefore(lo); err != nil {
			return nil, err
		}
	}
	if end == b.size {
		if g.End, err = b.functionAfter(hi); err != nil {
			return nil, err
		}
	}
	for _, code := range b.table.sections.Code {
		from, to := max(lo, code[0]), min(hi, code[1])
		if from >= to {
			continue
		}
		g := stackheight.Gap{Start: max(g.Start, code[0]), End: min(g.End, code[1])}
		g.Addr = max(g.Start, from-min(from, codeBefore))
		g.Reach = min(g.End, to+codeAround)
		g.Called = h.calls(g, to+codeAfter)
		for after := uint64(codeAfter); after <= codeAround; after *= 4 {
			end := min(g.End, to+after)
			if g.Text = b.code.bytesAt(g.Addr, int(end-g.Addr)); g.Text == nil {
				break // the rows of less text are right, too
			}
			h.findRules(g, from, to)
			if end == g.End || !h.analysis.Short(from, to) {
				break
			}
		}
		rows = h.putRules(rows, from, to)
	}
	return rows, nil
}

// calls returns the targets of calls in the code of g before its address, and after end.
func (h *heights) calls(g stackheight.Gap, end uint64) []uint64 {
	h.called = h.called[:0]
	h.addCalls(g, max(g.Start, g.Addr-min(g.Addr, codeAround)), g.Addr)
	h.addCalls(g, end, g.Reach)
	return h.called
}

// addCalls adds those targets of calls in the code from lo to hi that a text of g may have. The code is not decoded:
// bytes that look like a call are taken for one.
func (h *heights) addCalls(g stackheight.Gap, lo, hi uint64) {
	const call, size, piece = 0xe8, 5, 8 << 10
	for addr := lo; addr < hi; addr += piece {
		code := h.b.code.bytesAt(addr, int(min(piece+size-1, hi-addr))) // with the rest of a call that starts in the piece
		for at := 0; ; at++ {
			next := bytes.IndexByte(code[at:], call)
			if at += next; next < 0 || at+size > len(code) {
				break
			}
			to := addr + uint64(at+size) + uint64(int64(int32(binary.LittleEndian.Uint32(code[at+1:]))))
			if to >= g.Addr && to < g.Reach {
				h.called = append(h.called, to)
			}
		}
	}
}

// findRules makes the rows for [lo, hi) of the page from the text of g.
func (h *heights) findRules(g stackheight.Gap, lo, hi uint64) {
	b := h.b
	h.rows, h.found = append(h.rows[:0], unwind.Row{Off: uint16(lo - b.lo)}), 0
	end := lo // end of the text with a rule
	h.analysis.Rules(g, func(addr uint64, size int, r stackheight.Rule) bool {
		if addr+uint64(size) <= lo {
			return true
		}
		if addr >= hi {
			return false
		}
		w, ok := ruleOfHeight(r)
		if !ok {
			return true
		}
		if addr = max(addr, lo); addr > end {
			h.addRow(end, unwind.Row{})
		}
		h.addRow(addr, b.rowOf(w, unwind.ReasonNone))
		next := min(addr+uint64(size), hi)
		h.found += int(next - addr)
		end = next
		return true
	})
	if end < hi {
		h.addRow(end, unwind.Row{})
	}
}

// putRules adds the rows that find made for [lo, hi) of the page.
func (h *heights) putRules(rows []unwind.Row, lo, hi uint64) []unwind.Row {
	b := h.b
	if h.found == 0 {
		return rows
	}
	h.bytes += h.found
	out := appendRange(make([]unwind.Row, 0, len(rows)+len(h.rows)), rows, 0, int(lo-b.lo), b.size)
	for _, r := range h.rows {
		out = unwind.AppendRow(out, r)
	}
	h.rows, h.found = h.rows[:0], 0
	return appendRange(out, rows, int(hi-b.lo), b.size, b.size)
}

// addRow adds row from addr on, to the next row.
func (h *heights) addRow(addr uint64, row unwind.Row) {
	row.Off = uint16(addr - h.b.lo)
	if n := len(h.rows); n > 0 && h.rows[n-1].Off == row.Off {
		h.rows = h.rows[:n-1]
	}
	h.rows = unwind.AppendRow(h.rows, row)
}

// analyses are reused by RuleByAnalysis: most of their memory is for instructions.
var analyses = sync.Pool{New: func() any { return &stackheight.Analysis{} }}

// RuleByAnalysis returns the rule at the instruction at addr, derived from the code from there to a
// return, and false if that fails. code starts at start and is in [low, high), the code that may
// belong to the same function. It supports x86-64.
func RuleByAnalysis(machine elf.Machine, code []byte, start, addr, low, high uint64) (w unwind.WideRule, ok bool) {
	if machine != elf.EM_X86_64 {
		return w, false
	}
	a := analyses.Get().(*stackheight.Analysis)
	defer analyses.Put(a)
	const longest = 15 // bytes of an instruction
	// The code may start inside an instruction. Decoding from one of the next bytes reaches addr.
	for from := start; from <= addr && from-start <= min(longest, uint64(len(code))); from++ {
		a.Rules(stackheight.Gap{Start: low, End: high, Addr: from, Text: code[from-start:]},
			func(at uint64, _ int, r stackheight.Rule) bool {
				if at == addr {
					w, ok = ruleOfHeight(r)
				}
				return at < addr
			})
		if a.Begins(addr) {
			break
		}
	}
	return w, ok
}

// ruleOfHeight translates a rule from code analysis.
func ruleOfHeight(r stackheight.Rule) (unwind.WideRule, bool) {
	w := unwind.WideRule{CFAOff: r.Off, FPOff: r.FP, Rules: unwind.Rules(unwind.FPSame, unwind.RACalled)}
	switch {
	case r.Lost:
		w.FPOff, w.Rules = 0, unwind.Rules(unwind.FPUndefined, unwind.RACalled)
	case r.FP != 0:
		w.Rules = unwind.Rules(unwind.FPAtCFA, unwind.RACalled)
	}
	switch {
	case r.Kind == stackheight.Register && r.Reg == x86.RSP:
		w.CFA = unwind.CFASP
	case r.Kind == stackheight.Register && r.Reg == x86.RBP:
		w.CFA = unwind.CFAFP
	case r.Kind == stackheight.Register:
		w.CFA, w.Reg = unwind.CFAReg, dwarfNumbers[r.Reg]
		return w, true
	case r.Kind == stackheight.Memory && r.Reg == x86.RSP:
		w.CFA = unwind.CFASPDeref
	case r.Kind == stackheight.Memory && r.Reg == x86.RBP:
		w.CFA = unwind.CFAFPDeref
	}
	words := r.Add / 8
	w.Reg = uint8(words)
	return w, w.CFA != unwind.CFANone && r.Add%8 == 0 && words == int32(w.Reg)
}

// dwarfNumbers are the DWARF numbers of the registers of package x86 (System V ABI, AMD64
// supplement, figure 3.36).
var dwarfNumbers = [16]uint8{0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}

// functionBefore returns the end of the last function with call frame information that starts
// before addr.
func (b *builder) functionBefore(addr uint64) (uint64, error) {
	end := uint64(0)
	for _, f := range b.frames {
		at, err := f.endBefore(addr)
		if err != nil {
			return 0, err
		}
		end = max(end, at)
	}
	return end, nil
}

// functionAfter returns the start of the first function with call frame information that starts at
// or after addr.
func (b *builder) functionAfter(addr uint64) (uint64, error) {
	start := ^uint64(0)
	for _, f := range b.frames {
		at, err := f.startAfter(addr)
		if err != nil {
			return 0, err
		}
		start = min(start, at)
	}
	return start, nil
}
