package jvm

import "slices"

// Find returns the code at an address, or nil if there was none when the page was made.
func (p *Page) Find(addr uint64) *Code {
	lo, hi := 0, len(p.Code)
	for lo < hi {
		if mid := (lo + hi) / 2; p.Code[mid].End <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(p.Code) && p.Code[lo].Start <= addr {
		return p.Code[lo]
	}
	return nil
}

// Changed returns the pages with code that is gone or different: its memory may have been reused. The only error is
// language.ErrBusy.
func (vm *VM) Changed(pages map[uint64]*Page) (changed []uint64, err error) {
	var code []*Code
	for _, p := range pages {
		code = append(code, p.Code...)
	}
	addrs := make([]uint64, len(code))
	for i, c := range code {
		addrs[i] = c.block.start
	}
	l := &vm.layout.blobs
	size := int(l.bytes)
	b := make([]byte, len(addrs)*size)
	done, err := vm.memory.ReadEach(addrs, size, b)
	if err != nil {
		return nil, err
	}
	same := make(map[uint64]bool, done)
	for i, c := range code[:done] {
		header := b[i*size:][:size]
		same[c.block.start] = l.blockUsed.valueIn(header) != 0 && vm.parse(header, c.block.start, c.block.shift) == c.block
	}
	for n, p := range pages {
		differs := slices.ContainsFunc(p.Code, func(c *Code) bool { return !same[c.block.start] })
		if !differs {
			if differs, err = vm.written(p); err != nil {
				return nil, err
			}
		}
		if differs {
			changed = append(changed, n)
		}
	}
	return changed, nil
}

// Instructions that the VM may write are compared on each call at first, while the VM starts, and rarely later. The
// counts include calls after a failed walk.
const (
	closeLooks = 4
	rareLooks  = 32 // one in rareLooks calls compares
)

// written reports whether the VM has written instructions of a page since the page was made. The only error is
// language.ErrBusy.
func (vm *VM) written(p *Page) (bool, error) {
	if p.looks++; p.looks > closeLooks && p.looks%rareLooks != 0 {
		return false, nil
	}
	for _, part := range p.written {
		if same, err := part.still(vm.memory); !same {
			return err == nil, err
		}
	}
	return false, nil
}
