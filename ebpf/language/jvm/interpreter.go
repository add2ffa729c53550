package jvm

import (
	"cmp"
	"slices"
	"strings"
)

// framed reports whether, according to the rows of interpreter code, an interpreted frame with its method exists at an
// offset.
func framed(rows []rowAt, at int) bool {
	n, found := slices.BinarySearchFunc(rows, at, func(r rowAt, at int) int { return cmp.Compare(r.at, at) })
	for found && n+1 < len(rows) && rows[n+1].at == at {
		n++
	}
	if !found {
		n--
	}
	return n >= 0 && rows[n].framed
}

// codelet is a piece of the interpreter.
type codelet struct {
	start, end uint64
	entry      bool // sets up a frame
}

// codeletAlign is the alignment of a codelet's code (CodeEntryAlignment).
const codeletAlign = 32

// maxCodelets bounds the pieces of the interpreter; it has some 300.
const maxCodelets = 1 << 14

// queue returns the address range of the list of the interpreter's pieces.
func (vm *VM) queue() (start, end uint64) {
	l := &vm.layout.blobs
	if l.interpreter == 0 {
		return 0, 0
	}
	m := memory{r: vm.view}
	if vm.interpreter == 0 {
		vm.interpreter = m.u64(l.interpreter + vm.bias)
	}
	if vm.interpreter == 0 || m.err != nil {
		return 0, 0
	}
	start = m.u64(vm.interpreter + l.stubBuffer)
	var b [8]byte
	m.readBytes(vm.interpreter+l.queueEnd.at, b[:l.queueEnd.size])
	size := member{size: l.queueEnd.size}.valueIn(b[:])
	if m.err != nil || size < 0 {
		return 0, 0
	}
	return start, start + uint64(size)
}

// isInterpreter reports whether a block is the interpreter.
func (vm *VM) isInterpreter(b *block) bool {
	return strings.HasPrefix(vm.readText(b.name), "Interpreter")
}

// codelets lists the pieces of the interpreter in a block.
func (vm *VM) codelets(b *block, code []byte) (found []codelet) {
	l := &vm.layout.blobs
	start, end := vm.queue()
	if start < b.code || start >= b.limit {
		return nil
	}
	if last := b.code + uint64(len(code)); end <= start || end > last {
		end = last
	}
	for at := start; at+l.codeletBytes <= end && len(found) < maxCodelets; {
		header := code[at-b.code:]
		size := l.codeletSize.valueIn(header)
		if size < int64(l.codeletBytes) || uint64(size) > end-at {
			break
		}
		text := member{at: l.codeletDescription, size: 8}.valueIn(header)
		found = append(found, codelet{
			start: (at + l.codeletBytes + codeletAlign - 1) &^ (codeletAlign - 1),
			end:   at + uint64(size),
			entry: strings.HasPrefix(vm.readText(uint64(text)), "method entry point"),
		})
		at += uint64(size)
	}
	return found
}

// interpreterRules returns the rules of the interpreter.
func (vm *VM) interpreterRules(b *block, code []byte) []rowAt {
	interpretedRule := frame{form: interpreted}.wideRule()
	rules := []rowAt{{0, interpretedRule, true}}
	for _, c := range vm.codelets(b, code) {
		if c.start >= c.end {
			continue
		}
		p := piece{kind: interpreterCode, code: code[c.start-b.code : c.end-b.code], complete: -1}
		p.fixed = vm.layout.frames.fixed
		if c.entry {
			p.kind = interpreterEntry
		}
		for _, r := range p.rules() {
			r.at += int(c.start - b.code)
			rules = append(rules, r)
		}
		rules = append(rules, rowAt{int(c.end - b.code), interpretedRule, true})
	}
	return rules
}
