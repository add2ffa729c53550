package reference

import (
	"encoding/binary"
	"fmt"
)

// cursor reads numbers from bytes, one after another. It keeps the first error, and returns 0 for every number after
// it.
type cursor struct {
	data []byte
	at   int
	err  error
}

func (c *cursor) failWith(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("byte %d: %s", c.at, fmt.Sprintf(format, args...))
	}
}

// done reports whether all bytes have been read, or an error occurred.
func (c *cursor) done() bool { return c.err != nil || c.at >= len(c.data) }

// bytes returns the next n bytes.
func (c *cursor) bytes(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.data)-c.at) {
		c.failWith("%d bytes wanted, %d are there", n, len(c.data)-c.at)
		return nil
	}
	b := c.data[c.at:][:n]
	c.at += int(n)
	return b
}

// unsigned reads a little-endian number of 1, 2, 4 or 8 bytes.
func (c *cursor) unsigned(size int) uint64 {
	var b [8]byte
	copy(b[:], c.bytes(uint64(size)))
	return binary.LittleEndian.Uint64(b[:])
}

// signed reads a number of 1, 2, 4 or 8 bytes in two's complement.
func (c *cursor) signed(size int) int64 {
	switch v := c.unsigned(size); size {
	case 1:
		return int64(int8(v))
	case 2:
		return int64(int16(v))
	case 4:
		return int64(int32(v))
	default:
		return int64(v)
	}
}

// uleb reads an unsigned LEB128 number (DWARF 5, 7.6).
func (c *cursor) uleb() uint64 {
	v, _ := c.leb()
	return v
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	v, bits := c.leb()
	if bits < 64 && v>>(bits-1)&1 == 1 {
		v |= ^uint64(0) << bits
	}
	return int64(v)
}

// leb reads groups of seven bits, and returns their value and the number of bits.
func (c *cursor) leb() (v uint64, bits int) {
	for {
		b := c.unsigned(1)
		if bits < 64 {
			v |= b & 0x7f << bits
		}
		bits += 7
		if b&0x80 == 0 || c.err != nil {
			return v, bits
		}
	}
}

// readText reads a string up to its zero byte.
func (c *cursor) readText() string {
	start := c.at
	for c.unsigned(1) != 0 {
	}
	if c.err != nil {
		return ""
	}
	return string(c.data[start : c.at-1])
}
