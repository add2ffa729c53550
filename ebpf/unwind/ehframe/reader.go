package ehframe

import (
	"encoding/binary"
	"fmt"
)

// reader consumes the bytes of one entry. It keeps the first error, and all later reads return
// zero, so a parser checks err only once, at its end.
type reader struct {
	b     []byte
	pos   int
	addr  uint64 // ELF virtual address of b[0]
	order binary.ByteOrder
	err   error
}

func (r *reader) failWith(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) len() int { return len(r.b) - r.pos }

// takeBytes returns the next n bytes, or nil if there are fewer.
func (r *reader) takeBytes(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(r.len()) {
		r.failWith(ErrTruncated)
		return nil
	}
	b := r.b[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *reader) u8() uint8 {
	if r.err != nil || r.pos >= len(r.b) {
		r.failWith(ErrTruncated)
		return 0
	}
	r.pos++
	return r.b[r.pos-1]
}

func (r *reader) u16() uint16 {
	if b := r.takeBytes(2); b != nil {
		return r.order.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.takeBytes(4); b != nil {
		return r.order.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.takeBytes(8); b != nil {
		return r.order.Uint64(b)
	}
	return 0
}

// uint reads an unsigned number of size bytes.
func (r *reader) uint(size int) uint64 {
	switch size {
	case 1:
		return uint64(r.u8())
	case 2:
		return uint64(r.u16())
	case 4:
		return uint64(r.u32())
	case 8:
		return r.u64()
	}
	r.failWith(fmt.Errorf("%w: number of %d bytes", ErrUnsupported, size))
	return 0
}

// uleb reads an unsigned LEB128 number of at most 64 bits.
func (r *reader) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if r.err != nil {
			return 0
		}
		bits := uint64(c & 0x7f)
		if shift > 63 && bits != 0 || shift == 63 && bits > 1 {
			r.failWith(fmt.Errorf("%w: LEB128 number beyond 64 bits", ErrInvalid))
			return 0
		}
		if shift <= 63 {
			v |= bits << shift
		}
		if c&0x80 == 0 {
			return v
		}
	}
}

// sleb reads a signed LEB128 number of at most 64 bits.
func (r *reader) sleb() int64 {
	var v int64
	for shift := uint(0); ; shift += 7 {
		c := r.u8()
		if r.err != nil {
			return 0
		}
		bits := int64(c & 0x7f)
		if shift >= 63 && bits != 0 && bits != 0x7f {
			r.failWith(fmt.Errorf("%w: LEB128 number beyond 64 bits", ErrInvalid))
			return 0
		}
		if shift <= 63 {
			v |= bits << shift
		}
		if c&0x80 == 0 {
			if shift < 57 && c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// cstring reads a zero-terminated string.
func (r *reader) cstring() string {
	for i := r.pos; i < len(r.b) && r.err == nil; i++ {
		if r.b[i] == 0 {
			s := string(r.b[r.pos:i])
			r.pos = i + 1
			return s
		}
	}
	r.failWith(ErrTruncated)
	return ""
}
