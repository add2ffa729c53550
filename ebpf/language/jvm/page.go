package jvm

import (
	"errors"
	"hash/maphash"
	"io"
	"strings"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Code is a piece of code in a code cache at the time when a page was made.
type Code struct {
	Start, End uint64 // address range of its instructions
	Name       string // see VM.Page
	block      block
	rows       []rowAt // of the interpreter only
}

// Page is the rules for one page of a code cache, and the code that the rules cover.
type Page struct {
	Rows    *unwind.Page
	Code    []*Code // by address
	written []bytesOfBlock
	looks   int // number of requests to compare written
}

// bytesOfBlock is the checksum of instructions that the VM assembles in place. All other code is complete when its
// block appears, but stubs and the interpreter are made one by one while the VM starts.
type bytesOfBlock struct{ from, to, sum uint64 }

var sums = maphash.MakeSeed()

// partsOf splits the instructions at address start into parts, by the addresses of their pages. page is the address of
// any page, and size is the page size, a power of two.
func partsOf(code []byte, start, page, size uint64) map[uint64]bytesOfBlock {
	parts := map[uint64]bytesOfBlock{}
	end := start + uint64(len(code))
	for from := start; from < end; {
		at := from - (from-page)&(size-1)
		to := min(at+size, end)
		parts[at] = bytesOfBlock{from, to, maphash.Bytes(sums, code[from-start:to-start])}
		from = to
	}
	return parts
}

// still reports whether the instructions are unchanged. The only error is language.ErrBusy.
func (b bytesOfBlock) still(memory io.ReaderAt) (bool, error) {
	code := make([]byte, b.to-b.from)
	_, err := memory.ReadAt(code, int64(b.from))
	if errors.Is(err, language.ErrBusy) {
		return false, err
	}
	return err == nil && maphash.Bytes(sums, code) == b.sum, nil
}

// absent is the rule of an address without known code: code may be made there.
var absent = unwind.WideRule{CFA: unwind.CFAAbsent}

// Page makes page n; each page covers 1<<shift bytes, of addresses less base. Code that is unchanged since old, an
// earlier version of the same page or nil, is taken from there.
//
// Code is named "package.Class.method", or else by HotSpot's own name for it, such as "StubRoutines (1)".
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
		rules, part, err := vm.rules(&b, lo, lo+1<<shift)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			changes = append(changes, unwind.Change{Vaddr: b.code + uint64(r.at) - base, Rule: r.rule})
		}
		changes = append(changes, unwind.Change{Vaddr: b.limit - base, Rule: absent})
		code := vm.codeOf(b, old)
		if vm.isInterpreter(&b) {
			code.rows = rules
		}
		page.Code, page.written = append(page.Code, code), append(page.written, part...)
	}
	if view.busy != nil {
		return nil, view.busy
	}
	page.Rows = unwind.PageOf(n, shift, changes)
	return page, nil
}

// codeOf returns the named code of a block, from old if it is there.
func (vm *VM) codeOf(b block, old *Page) *Code {
	if old != nil {
		for _, c := range old.Code {
			if c.block == b {
				return c
			}
		}
	}
	return &Code{Start: b.code, End: b.limit, Name: vm.name(&b), block: b}
}

// longOne is code that spans several pages, so that it is requested again.
type longOne struct {
	block block
	rules []rowAt
	parts map[uint64]bytesOfBlock // by the address of their page, if the VM may still write instructions
}

// Bounds of the remembered pieces of code, and of their rules.
const (
	maxLong      = 64
	maxLongRules = 1 << 17
)

// rules returns the rules of a block's code, and its part in the page [lo, hi) if the VM may still write that part.
func (vm *VM) rules(b *block, lo, hi uint64) ([]rowAt, []bytesOfBlock, error) {
	if isBuffer(vm.readText(b.name)) {
		return []rowAt{{rule: entryFrame.wideRule()}}, nil, nil
	}
	if one := vm.long[b.start]; one != nil && one.block == *b && one.still(lo, vm.view) {
		return one.rules, one.partOn(lo), nil
	}
	writes := b.method == 0 && b.frame == 0
	m := memory{r: vm.view}
	if writes {
		m.r = vm.memory // one read of the whole code, because it is long
	}
	code := make([]byte, min(b.limit-b.code, MaxCode))
	m.readBytes(b.code, code)
	if m.err != nil {
		return nil, nil, m.err
	}
	one := &longOne{block: *b, rules: vm.makeRules(b, code)}
	if writes {
		one.parts = partsOf(code, b.code, lo, hi-lo)
	}
	if (b.code < lo || b.limit > hi) && len(one.rules) <= maxLongRules {
		if len(vm.long) >= maxLong || vm.longRules+len(one.rules) > maxLongRules {
			clear(vm.long)
			vm.longRules = 0
		}
		vm.long[b.start] = one
		vm.longRules += len(one.rules)
	}
	return one.rules, one.partOn(lo), nil
}

// partOn returns the part in a page, if the VM may still write it.
func (o *longOne) partOn(page uint64) []bytesOfBlock {
	if part, ok := o.parts[page]; ok {
		return []bytesOfBlock{part}
	}
	return nil
}

// still reports whether the rules in a page match the instructions in memory.
func (o *longOne) still(page uint64, memory io.ReaderAt) bool {
	for _, part := range o.partOn(page) {
		same, err := part.still(memory)
		return same && err == nil
	}
	return o.parts == nil
}

// MaxCode bounds the instructions of one piece of code.
const MaxCode = 2 << 20

func (vm *VM) makeRules(b *block, code []byte) []rowAt {
	name := vm.readText(b.name)
	switch {
	case vm.isInterpreter(b):
		return vm.interpreterRules(b, code)
	case strings.HasPrefix(name, "I2C/C2I"):
		return piece{kind: adapter, code: code}.rules()
	case name == "ExceptionBlob":
		return piece{kind: exception, code: code, complete: -1}.rules()
	case b.frame > 0:
		return piece{kind: compiled, code: code, size: b.frame, complete: int(b.complete)}.rules()
	}
	rules := piece{kind: stub, code: code, complete: -1}.rules()
	if isContinuationStubs(name) {
		rules = withBarrier(rules, int(barrierIn(code, 0)), len(code))
	}
	return rules
}

// isBuffer reports whether a name is the name of a buffer with small pieces of code that come and go while the buffer
// stays, with data among them. None of the pieces touches the stack.
func isBuffer(name string) bool {
	return strings.HasPrefix(name, "vtable") || strings.HasSuffix(name, "signature handlers") ||
		strings.HasSuffix(name, "Buffer") || name == "adapters"
}

// maxTexts bounds the remembered names.
const maxTexts = 4096

// readText returns the C string at an address, or "" if it cannot be read.
func (vm *VM) readText(at uint64) string {
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
