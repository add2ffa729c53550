package jvm

import (
	"strings"

	"github.com/headwater/headwater/ebpf/unwind"
)

// Code is a piece of code in a code cache, as it was when a page was made.
type Code struct {
	Start, End uint64 // its instructions' addresses
	Name       string // see VM.Page
	block      block
	rows       []rowAt // of the interpreter
}

// Page is the rules for one page of a code cache, and the code that they are about.
type Page struct {
	Rows *unwind.Page
	Code []*Code // by address
}

// absent says that nothing was known of an address: code may be made there.
var absent = unwind.WideRule{CFA: unwind.CFAAbsent}

// Page makes page n of those that cover 1<<shift bytes each, of addresses less base.
// Code that is as it was in old, an earlier one of the same page or nil, is taken from
// there.
//
// Code is named "package.Class.method", or else as HotSpot calls it, such as
// "StubRoutines (1)".
func (vm *VM) Page(n uint64, shift uint8, base uint64, old *Page) (*Page, error) {
	view := &cached{r: vm.memory, chunks: map[int64][]byte{}}
	vm.view = view
	defer func() { vm.view = vm.memory }()
	lo := n<<shift + base
	blocks, err := vm.blocks(lo, lo+1<<shift)
	if err != nil {
		return nil, err
	}
	page := &Page{}
	changes := []unwind.Change{{Vaddr: lo - base, Rule: absent}}
	for _, b := range blocks {
		rules, err := vm.rules(&b, lo, lo+1<<shift)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			changes = append(changes, unwind.Change{Vaddr: b.code + uint64(r.at) - base, Rule: r.rule})
		}
		changes = append(changes, unwind.Change{Vaddr: b.limit - base, Rule: absent})
		code := vm.code(b, old)
		if vm.isInterpreter(&b) {
			code.rows = rules
		}
		page.Code = append(page.Code, code)
	}
	if view.busy != nil {
		return nil, view.busy
	}
	page.Rows = unwind.PageOf(n, shift, changes)
	return page, nil
}

// code names a block, unless that was done before.
func (vm *VM) code(b block, old *Page) *Code {
	if old != nil {
		for _, c := range old.Code {
			if c.block == b {
				return c
			}
		}
	}
	return &Code{Start: b.code, End: b.limit, Name: vm.name(&b), block: b}
}

// longOne is code that has a part in more than one page, so that it is asked for again.
type longOne struct {
	block block
	rules []rowAt
}

// Bounds of the pieces of code whose rules are remembered, and of those rules.
const (
	maxLong      = 64
	maxLongRules = 1 << 17
)

// rules returns the rules of a block's code.
func (vm *VM) rules(b *block, lo, hi uint64) ([]rowAt, error) {
	if one := vm.long[b.start]; one != nil && one.block == *b {
		return one.rules, nil
	}
	rules, err := vm.makeRules(b)
	if err == nil && (b.code < lo || b.limit > hi) && len(rules) <= maxLongRules {
		if len(vm.long) >= maxLong || vm.longRules+len(rules) > maxLongRules {
			clear(vm.long)
			vm.longRules = 0
		}
		vm.long[b.start] = &longOne{*b, rules}
		vm.longRules += len(rules)
	}
	return rules, err
}

// MaxCode bounds the instructions of one piece of code.
const MaxCode = 2 << 20

func (vm *VM) makeRules(b *block) ([]rowAt, error) {
	name := vm.text(b.name)
	if isBuffer(name) {
		return []rowAt{{rule: entryFrame.rule()}}, nil
	}
	m := memory{r: vm.view}
	code := make([]byte, min(b.limit-b.code, MaxCode))
	m.read(b.code, code)
	if m.err != nil {
		return nil, m.err
	}
	switch {
	case vm.isInterpreter(b):
		return vm.interpreterRules(b, code), nil
	case strings.HasPrefix(name, "I2C/C2I"):
		return piece{kind: adapter, code: code}.rules(), nil
	case name == "ExceptionBlob":
		return piece{kind: exception, code: code, complete: -1}.rules(), nil
	case b.frame > 0:
		return piece{kind: compiled, code: code, size: b.frame, complete: int(b.complete)}.rules(), nil
	}
	return piece{kind: stub, code: code, complete: -1}.rules(), nil
}

// isBuffer reports whether code of that name is small pieces that come and go while
// the buffer stays, with data among them. None touches the stack.
func isBuffer(name string) bool {
	return strings.HasPrefix(name, "vtable") || strings.HasSuffix(name, "signature handlers") ||
		strings.HasSuffix(name, "Buffer") || name == "adapters"
}

// maxTexts bounds the names that are remembered.
const maxTexts = 4096

// text returns the C string at an address, "" if it cannot be read.
func (vm *VM) text(at uint64) string {
	s, ok := vm.texts[at]
	if !ok {
		m := memory{r: vm.view}
		if s = m.cString(at); m.err != nil {
			return ""
		}
		if len(vm.texts) >= maxTexts {
			clear(vm.texts)
		}
		vm.texts[at] = s
	}
	return s
}
