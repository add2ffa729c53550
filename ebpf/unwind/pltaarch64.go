package unwind

import (
	"debug/elf"
	"encoding/binary"
)

// The stubs of a procedure linkage table have no call frame information on arm64,
// and a walk by frame pointers would leave out the function that called one. Their
// code is always the same (ELF for the Arm 64-bit Architecture, appendix A; the GNU
// and LLVM linkers): a stub loads the address of its function and goes there, with
// the return address in x30. The first one puts x30 on the stack and goes to the
// resolver.
//
//	stp x16,x30,[sp,#-16]!    only the first one
//	adrp x16, page            maybe after bti c
//	ldr x17,[x16,#offset]
//	add x16,x16,#offset
//	br x17

// pltCode are the instructions of a stub: their fixed bits, and which those are.
func pltCode() [4][2]uint32 {
	return [4][2]uint32{{0x9000_0010, 0x9f00_001f}, {0xf940_0211, 0xffc0_03ff}, {0x9100_0210, 0xff80_03ff}, {0xd61f_0220, 0xffff_ffff}}
}

const (
	pltPush = 0xa9bf_7bf0 // stp x16,x30,[sp,#-16]!
	btiC    = 0xd503_245f
	armCode = 4 // bytes of an instruction
)

// markStubs returns the rows marked with those of the stubs in text, which is at the offset
// first of the page.
func (b *builder) markStubs(marked []Row, text []byte, first int) []Row {
	if b.table.sections.Machine != elf.EM_AARCH64 {
		return marked
	}
	leaf := Row{CFA: CFASP, Rules: rules(FPSame, RALR)}
	pushed := Row{CFA: CFASP, CFAOff: 16, Rules: rules(FPSame, RADefault), FPOff: -16} // x30 is at CFA - 8
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(text[i:]) }
	code := pltCode()
	size := armCode * len(code)
	for i := 0; i+size <= len(text); i += armCode {
		if !isStub(text[i:], code) {
			continue
		}
		start, row := i, leaf
		if start >= armCode && at(start-armCode) == btiC {
			start -= armCode
		}
		if start >= armCode && at(start-armCode) == pltPush {
			marked = b.mark(marked, first+start-armCode, first+start, leaf)
			row = pushed
		}
		marked = b.mark(marked, first+start, first+i+size, row)
		i += size - armCode
	}
	return marked
}

func isStub(text []byte, code [4][2]uint32) bool {
	for n, c := range code {
		if binary.LittleEndian.Uint32(text[armCode*n:])&c[1] != c[0] {
			return false
		}
	}
	return true
}
