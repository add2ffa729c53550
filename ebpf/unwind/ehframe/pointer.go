package ehframe

import "fmt"

// Encoding is a DW_EH_PE byte: the format of an encoded pointer. The low nibble is the number
// format, bits 4 to 6 are the base.
type Encoding uint8

// Pointer encodings (LSB Core 5.0, 10.5.1).
const (
	PEAbsptr  Encoding = 0x00
	PEUleb128 Encoding = 0x01
	PEUdata2  Encoding = 0x02
	PEUdata4  Encoding = 0x03
	PEUdata8  Encoding = 0x04
	PESigned  Encoding = 0x08 // a signed number of the size of an address
	PESleb128 Encoding = 0x09
	PESdata2  Encoding = 0x0a
	PESdata4  Encoding = 0x0b
	PESdata8  Encoding = 0x0c

	PEPcrel    Encoding = 0x10
	PETextrel  Encoding = 0x20
	PEDatarel  Encoding = 0x30
	PEFuncrel  Encoding = 0x40
	PEAligned  Encoding = 0x50
	PEIndirect Encoding = 0x80
	PEOmit     Encoding = 0xff
)

const (
	peFormat = 0x0f
	peBase   = 0x70
)

// bases holds the possible bases of encoded pointers.
type bases struct {
	text, data, fn uint64
	addrSize       int
}

// size returns the number of bytes of a pointer encoded as e, 0 if it varies or e is unknown.
func (e Encoding) size(addrSize int) int {
	switch e & peFormat {
	case PEAbsptr, PESigned:
		return addrSize
	case PEUdata2, PESdata2:
		return 2
	case PEUdata4, PESdata4:
		return 4
	case PEUdata8, PESdata8:
		return 8
	}
	return 0
}

// number reads the number of a pointer, without its base.
func (r *reader) number(e Encoding, addrSize int) uint64 {
	switch e & peFormat {
	case PEUleb128:
		return r.uleb()
	case PESleb128:
		return uint64(r.sleb())
	case PESigned:
		return signExtend(r.uint(addrSize), addrSize)
	case PESdata2:
		return signExtend(r.uint(2), 2)
	case PESdata4:
		return signExtend(r.uint(4), 4)
	}
	size := e.size(addrSize)
	if size == 0 {
		r.failWith(fmt.Errorf("%w: pointer encoding %#02x", ErrUnsupported, uint8(e)))
		return 0
	}
	return r.uint(size)
}

func signExtend(v uint64, size int) uint64 {
	shift := 64 - 8*uint(size)
	return uint64(int64(v<<shift) >> shift)
}

// pointer reads a pointer encoded as e. For an indirect pointer it returns the address of the slot
// that holds the pointer. Callers that need the pointer itself must reject the encoding (see
// direct).
func (r *reader) pointer(e Encoding, b bases) uint64 {
	if e == PEOmit {
		r.failWith(fmt.Errorf("%w: omitted pointer", ErrInvalid))
		return 0
	}
	if e&peBase == PEAligned {
		r.align(b.addrSize)
	}
	at, ok := addAddress(r.addr, uint64(r.pos), 8)
	if !ok {
		r.failWith(fmt.Errorf("%w: section beyond the address space", ErrInvalid))
		return 0
	}
	v := r.number(e, b.addrSize)
	if r.err != nil {
		return 0
	}
	base := uint64(0)
	switch e & peBase {
	case 0, PEAligned:
		return v
	case PEPcrel:
		base = at
	case PETextrel:
		base = b.text
	case PEDatarel:
		base = b.data
	case PEFuncrel:
		base = b.fn
	default:
		r.failWith(fmt.Errorf("%w: pointer encoding %#02x", ErrUnsupported, uint8(e)))
		return 0
	}
	return r.relative(base, v, e, b.addrSize)
}

// relative adds the number v, read with encoding e, to base. Numbers as wide as an address wrap
// around the address space, because an unsigned number may represent a negative distance.
func (r *reader) relative(base, v uint64, e Encoding, addrSize int) uint64 {
	if addrSize == 4 {
		return uint64(uint32(base + v))
	}
	var sum uint64
	var ok bool
	switch e & peFormat {
	case PEUleb128, PEUdata2, PEUdata4:
		sum, ok = addAddress(base, v, addrSize)
	default:
		sum, ok = addSigned(base, int64(v))
	}
	if !ok {
		r.failWith(fmt.Errorf("%w: pointer beyond the address space", ErrInvalid))
	}
	return sum
}

// align skips to the next address that is a multiple of size.
func (r *reader) align(size int) {
	if rest := (r.addr + uint64(r.pos)) % uint64(size); rest != 0 {
		r.takeBytes(uint64(size) - rest)
	}
}

// direct reports whether e encodes the pointer itself, with a base that does not depend on a
// function.
func (e Encoding) direct() bool { return e != PEOmit && e&PEIndirect == 0 && e&peBase != PEFuncrel }

// addAddress returns a + b, and false if the sum exceeds the address space for addresses of size bytes.
func addAddress(a, b uint64, size int) (uint64, bool) {
	sum := a + b
	if sum < a || size == 4 && sum > 1<<32 {
		return 0, false
	}
	return sum, true
}

// addSigned returns a + d, and false on overflow in either direction.
func addSigned(a uint64, d int64) (uint64, bool) {
	sum := a + uint64(d)
	return sum, (d >= 0) == (sum >= a)
}
