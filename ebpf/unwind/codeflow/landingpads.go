package codeflow

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
)

// maxCallSites bounds the bytes of a call site table.
const maxCallSites = 1 << 20

var errCallSites = errors.New("the table of exception handlers cannot be read")

// landingPads returns the landing pads of a function for exceptions, from its call site table
// (Itanium C++ ABI, "Exception Handling Tables"; gcc and clang write the table for every language
// with cleanups).
func (f *Finder) landingPads(fde *ehframe.FDE) (pads []uint64, err error) {
	if fde.LSDA == 0 {
		return nil, nil
	}
	t := &tableReader{image: f.file, at: fde.LSDA, order: f.file.ByteOrder()}
	base := fde.Start
	if encoding := t.byte(); encoding != byte(ehframe.PEOmit) {
		return nil, fmt.Errorf("%#x: %w: landing pads are relative to another place", fde.LSDA, errCallSites)
	}
	if encoding := t.byte(); encoding != byte(ehframe.PEOmit) {
		t.uleb() // end of the table of types
	}
	encoding := t.byte()
	size := t.uleb()
	if size > maxCallSites {
		return nil, fmt.Errorf("%#x: %w: it has %d bytes", fde.LSDA, errCallSites, size)
	}
	for end := t.at + size; t.err == nil && t.at < end; {
		t.number(encoding) // start of the call site
		t.number(encoding) // its length
		pad := t.number(encoding)
		t.uleb() // action
		if pad != 0 {
			pads = append(pads, base+pad)
		}
	}
	if t.err != nil {
		return nil, fmt.Errorf("%#x: %w: %w", fde.LSDA, errCallSites, t.err)
	}
	return pads, nil
}

// tableReader reads consecutive numbers. After an error they are 0.
type tableReader struct {
	image Image
	at    uint64
	order binary.ByteOrder
	err   error
}

func (t *tableReader) bytes(n int) []byte {
	b := make([]byte, n)
	if t.err == nil {
		t.err = t.image.ReadVaddr(b, t.at)
	}
	t.at += uint64(n)
	if t.err != nil {
		clear(b)
	}
	return b
}

func (t *tableReader) byte() byte { return t.bytes(1)[0] }

func (t *tableReader) uleb() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := t.byte()
		n |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return n
		}
	}
	t.err = errors.Join(t.err, errors.New("a number has too many bytes"))
	return 0
}

// number reads a number of a call site. Its encoding has no base.
func (t *tableReader) number(encoding byte) uint64 {
	switch ehframe.Encoding(encoding) {
	case ehframe.PEUleb128:
		return t.uleb()
	case ehframe.PEUdata2:
		return uint64(t.order.Uint16(t.bytes(2)))
	case ehframe.PEUdata4:
		return uint64(t.order.Uint32(t.bytes(4)))
	case ehframe.PEUdata8, ehframe.PEAbsptr:
		return t.order.Uint64(t.bytes(8))
	}
	t.err = errors.Join(t.err, fmt.Errorf("encoding %#x", encoding))
	return 0
}
