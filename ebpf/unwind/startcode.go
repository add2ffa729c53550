package unwind

import (
	"debug/elf"
	"encoding/hex"
	"iter"
	"math"
	"strings"
	"sync"
)

// startCode is code of the files that compilers link into every program and
// library, crti.o, crtbegin.o and crtn.o: constructors and destructors. They are
// compiled without call frame information, and are the first code of a library that is
// run, where the kernel has to read the file.
type startCode struct {
	code []byte
	any  []bool // bytes that may be anything: addresses
	key  []byte // what code begins with, without such bytes
	rows []Row  // Off counts from the first byte; in force up to the next one or the end of code
}

// startCodes returns the known ones of a machine.
func startCodes(m elf.Machine) []startCode {
	if m != elf.EM_X86_64 {
		return nil // its frame pointers tell
	}
	return startCodesX86()
}

// startCodesX86 are what binutils and GCC assemble since 2018, with and without
// endbr64 where functions are called indirectly.
var startCodesX86 = sync.OnceValue(func() (all []startCode) {
	add := func(digits string, rows ...Row) { all = append(all, newStartCode(digits, rows...)) }
	for _, entry := range []string{"", "f30f1efa "} {
		at := uint16(len(entry) / 2)
		// _init: sub $8,%rsp; mov __gmon_start__,%rax; test %rax,%rax; je; call; add $8,%rsp; ret
		add(entry+"4883ec08 488b05........ 4885c0 7402 ffd0 4883c408 c3", popped(0), below(at+4), popped(at+22))
		add(entry+"4883ec08 488b05........ 4885c0 7405 e8........ 4883c408 c3", popped(0), below(at+4), popped(at+25))
		add(entry+"4883ec08 48c7c0........ 4885c0 7402 ffd0 4883c408 c3", popped(0), below(at+4), popped(at+22))
		// _fini: sub $8,%rsp; add $8,%rsp; ret
		add(entry+"4883ec08 4883c408 c3", popped(0), below(at+4), popped(at+8))
		// __do_global_dtors_aux: cmpb $0,done; jne; push %rbp; cmpq $0,__cxa_finalize; mov %rsp,%rbp; je;
		// mov __dso_handle,%rdi; call; call; movb $1,done; pop %rbp; ret. Behind it frame_dummy: jmp.
		add(entry+"803d........00 752b 55 48833d........00 4889e5 740c 488b3d........ e8........ e8........ c605........01 5d c3 0f1f00 c3 "+
			"0f1f8000000000 "+entry+"e9........", popped(0), pushedFP(at+10), popped(at+48))
	}
	// deregister_tm_clones, register_tm_clones
	add("488d3d........ 488d05........ 4839f8 7415 488b05........ 4885c0 7409 ffe0 0f1f8000000000 c3", popped(0))
	add("488d3d........ 488d35........ 4829fe 4889f0 48c1ee3f 48c1f803 4801c6 48d1fe 7414 488b05........ 4885c0 7408 ffe0 660f1f440000 c3", popped(0))
	// The same three in a program at a fixed address.
	add("b8........ 483d........ 7413 b8........ 4885c0 7409 bf........ ffe0 6690 c3", popped(0))
	add("be........ 4881ee........ 4889f0 48c1ee3f 48c1f803 4801c6 48d1fe 7411 b8........ 4885c0 7407 bf........ ffe0 c3", popped(0))
	add("f30f1efa 803d........00 7513 55 4889e5 e8........ c605........01 5d c3 90 c3 66662e0f1f840000000000 0f1f4000 f30f1efa eb..",
		popped(0), pushedFP(14), popped(30))
	return all
})

// popped is the row of a function that has pushed nothing, or popped all of it.
func popped(off uint16) Row { return Row{Off: off, CFA: CFASP, CFAOff: 8} }

// below is the row of a function that has 8 bytes of the stack.
func below(off uint16) Row { return Row{Off: off, CFA: CFASP, CFAOff: 16} }

// pushedFP is the row of a function that has pushed rbp.
func pushedFP(off uint16) Row {
	return Row{Off: off, CFA: CFASP, CFAOff: 16, Rules: rules(FPAtCFA, RADefault), FPOff: -16}
}

// newStartCode reads hexadecimal digits, in which dots stand for any.
func newStartCode(digits string, rows ...Row) startCode {
	digits = strings.ReplaceAll(digits, " ", "")
	c := startCode{rows: rows, any: make([]bool, len(digits)/2)}
	c.code, _ = hex.DecodeString(strings.ReplaceAll(digits, ".", "0")) // is checked by a test
	for i := range c.any {
		c.any[i] = digits[2*i] == '.'
	}
	c.key = c.code
	for i, any := range c.any {
		if any {
			c.key = c.code[:i]
			break
		}
	}
	return c
}

// occurrences yields where in text c is.
func (c *startCode) occurrences(text []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := range occurrences(text, c.key) {
			if c.begins(text[at:]) && !yield(at) {
				return
			}
		}
	}
}

// begins reports whether text begins with c.
func (c *startCode) begins(text []byte) bool {
	if len(text) < len(c.code) {
		return false
	}
	for i, b := range c.code {
		if text[i] != b && !c.any[i] {
			return false
		}
	}
	return true
}

const (
	minStartGap  = 23 // bytes, the size of _init; to look into smaller gaps, alignment mostly, is not worth it
	maxStartCode = 80 // bytes, more than the length of any
)

// markStartCode returns rows with those of start code in the gaps of .eh_frame.
func (b *builder) markStartCode(rows []Row) []Row {
	if len(b.code.startFiles) == 0 {
		return rows
	}
	for i, gap := range b.first {
		start, end := int(gap.Off), b.size
		if i+1 < len(b.first) {
			end = int(b.first[i+1].Off)
		}
		if gap.CFA != CFANone || end-start < minStartGap {
			continue
		}
		if start == 0 {
			start = -int(min(b.lo, maxStartCode)) // it may begin in the page before
		}
		if end == b.size {
			end += int(min(maxStartCode, math.MaxUint64-b.hi)) // it may end in the page behind
		}
		rows = b.markStartCodeIn(rows, start, end)
	}
	return rows
}

// markStartCodeIn does so for the bytes between two offsets of the page.
func (b *builder) markStartCodeIn(rows []Row, start, end int) []Row {
	for i := range b.code.segments {
		s := &b.code.segments[i]
		lo := max(b.lo+uint64(int64(start)), s.addr)
		hi := min(b.lo+uint64(int64(end)), s.addr+s.window.size)
		if lo >= hi {
			continue
		}
		text, err := s.window.Slice(lo-s.addr, int(hi-lo))
		if err != nil {
			continue // the rows are good without
		}
		for k := range b.code.startFiles {
			c := &b.code.startFiles[k]
			for at := range c.occurrences(text) {
				rows = b.markRows(rows, int(int64(lo-b.lo))+at, c)
			}
		}
	}
	return rows
}

// markRows returns rows with those of c, which is at an offset of the page.
func (b *builder) markRows(rows []Row, at int, c *startCode) []Row {
	for i, row := range c.rows {
		end := len(c.code)
		if i+1 < len(c.rows) {
			end = int(c.rows[i+1].Off)
		}
		rows = b.mark(rows, at+int(row.Off), at+end, row)
	}
	return rows
}
