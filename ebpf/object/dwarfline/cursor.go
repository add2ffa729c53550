package dwarfline

import (
	"bytes"
	"encoding/binary"
)

// cursor reads a section. The first read past the end sets err; all later reads return zero.
type cursor struct {
	section string
	data    []byte
	order   binary.ByteOrder
	at      uint64 // never above len(data)
	err     error
}

func newCursor(section string, data []byte, order binary.ByteOrder, at uint64) cursor {
	c := cursor{section: section, data: data, order: order, at: at}
	if at > uint64(len(data)) {
		c.at = uint64(len(data))
		c.err = &FormatError{section, at, "offset is past the end of the section"}
	}
	return c
}

func (c *cursor) failWith(problem string) {
	if c.err == nil {
		c.err = &FormatError{c.section, c.at, problem}
	}
	c.at = uint64(len(c.data))
}

// limit truncates the data at offset end.
func (c *cursor) limit(end uint64) {
	if end > uint64(len(c.data)) || end < c.at {
		c.failWith("the length points past the end of the section")
		return
	}
	c.data = c.data[:end]
}

func (c *cursor) more() bool { return c.err == nil && c.at < uint64(len(c.data)) }

// takeBytes returns the next n bytes, or nil if there are fewer.
func (c *cursor) takeBytes(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.data))-c.at {
		c.failWith("truncated")
		return nil
	}
	b := c.data[c.at : c.at+n]
	c.at += n
	return b
}

func (c *cursor) skipBytes(n uint64) {
	if c.err != nil || n > uint64(len(c.data))-c.at {
		c.failWith("truncated")
		return
	}
	c.at += n
}

func (c *cursor) u8() uint8 {
	if c.at >= uint64(len(c.data)) || c.err != nil {
		c.failWith("truncated")
		return 0
	}
	b := c.data[c.at]
	c.at++
	return b
}

// fixed reads an unsigned number of 1, 2, 3, 4 or 8 bytes.
func (c *cursor) fixed(size uint8) uint64 {
	b := c.takeBytes(uint64(size))
	if b == nil {
		return 0
	}
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(c.order.Uint16(b))
	case 3:
		if c.order == binary.ByteOrder(binary.BigEndian) {
			return uint64(b[0])<<16 | uint64(b[1])<<8 | uint64(b[2])
		}
		return uint64(b[2])<<16 | uint64(b[1])<<8 | uint64(b[0])
	case 4:
		return uint64(c.order.Uint32(b))
	case 8:
		return c.order.Uint64(b)
	}
	c.failWith("a number of unknown size")
	return 0
}

// maxLEB bounds the bytes of a LEB128 number. Linkers pad these numbers, to 10 bytes at most.
const (
	maxLEB        = 16
	maxLEBShift   = 7 * (maxLEB - 1)
	endlessNumber = "a number without end"
)

// uleb reads an unsigned LEB128 number. Bits above 64 are dropped.
func (c *cursor) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return v
		}
		if shift == maxLEBShift {
			c.failWith(endlessNumber)
		}
	}
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); ; {
		b := c.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if b >= 0x80 && shift == maxLEBShift {
			c.failWith(endlessNumber)
		}
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

func (c *cursor) skipLEB() {
	for shift := 0; c.u8() >= 0x80; shift += 7 {
		if shift == maxLEBShift {
			c.failWith(endlessNumber)
		}
	}
}

// maxString bounds the bytes of a string inside other data. Names with templates take some 100 KiB.
const maxString = 1 << 20

// cstring returns the bytes up to the next zero byte and skips that byte.
func (c *cursor) cstring() []byte {
	if c.err != nil {
		return nil
	}
	rest := c.data[c.at:]
	n := bytes.IndexByte(rest[:min(len(rest), maxString)], 0)
	if n < 0 {
		c.failWith("a string without end")
		return nil
	}
	b := c.data[c.at : c.at+uint64(n)]
	c.at += uint64(n) + 1
	return b
}

// unitLength reads the length at the start of a unit in any section, limits the data to it and
// returns the size of offsets in the unit, 4 or 8.
func (c *cursor) unitLength() (offsetSize uint8) {
	length := c.fixed(4)
	offsetSize = 4
	switch {
	case length == 0xffffffff:
		length, offsetSize = c.fixed(8), 8
	case length >= 0xfffffff0:
		c.failWith("reserved unit length")
	}
	if length > uint64(len(c.data)) {
		c.failWith("the length points past the end of the section")
		return offsetSize
	}
	c.limit(c.at + length)
	return offsetSize
}

// maxText bounds the bytes of a string. Longer strings are cut.
const maxText = 64 << 10

// stringAt returns the string at an offset of a string section.
func stringAt(section string, data []byte, at uint64) (string, error) {
	if at >= uint64(len(data)) {
		return "", &FormatError{section, at, "offset is past the end of the section"}
	}
	rest := data[at:]
	rest = rest[:min(len(rest), maxText)]
	if n := bytes.IndexByte(rest, 0); n >= 0 {
		rest = rest[:n]
	}
	return string(rest), nil
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
