package kernel

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/headwater/headwater/ebpf/language"
)

// Chain holds the frames of a sample that an interpreter keeps itself.
type Chain struct {
	Interpreter uint32 // its ID, see Tables.AddInterpreter; 0 if none
	End         language.ChainEnd
	Frames      []ChainFrame          // leaf first
	Codes       []language.CodeObject // code objects that the kernel met for the first time
	words       []uint64              // the Words of all Frames, one after the other
}

// ChainFrame is a frame of a Chain.
type ChainFrame struct {
	Words  []uint64 // one for each word of the layout
	Cookie uint64   // of its code object, see language.Fold
}

// CopyFrom makes c a copy of from that shares no memory with it.
func (c *Chain) CopyFrom(from *Chain) {
	words, frames := c.words[:0], c.Frames[:0]
	c.Interpreter, c.End = from.Interpreter, from.End
	c.words = append(words, from.words...)
	stride := 0
	if n := len(from.Frames); n > 0 {
		stride = len(from.words) / n
	}
	c.Frames = frames
	for i, f := range from.Frames {
		c.Frames = append(c.Frames, ChainFrame{c.words[i*stride : (i+1)*stride], f.Cookie})
	}
	c.Codes = nil
	for _, code := range from.Codes { // only new ones, so there are few
		code.Words = slices.Clone(code.Words)
		texts := make([][]byte, len(code.Text))
		for i, text := range code.Text {
			texts[i] = slices.Clone(text)
		}
		code.Text = texts
		c.Codes = append(c.Codes, code)
	}
}

var errChain = errors.New("the record of a chain is too short")

// decode parses the part of a sample that bpf/language/runtime.h writes. codes is the number of code objects in it.
func (c *Chain) decode(b []byte, codes int) error {
	c.Frames, c.Codes, c.words = c.Frames[:0], nil, c.words[:0]
	if len(b) == 0 {
		return nil
	}
	le := binary.LittleEndian
	word := func(i int) uint64 { return le.Uint64(b[8*i:]) }
	head := word(0)
	b = b[8:]
	frames, stride := int(uint32(head)), int(head>>32&0xff)
	if stride < 1 || frames > len(b)/8/stride {
		return errChain
	}
	c.words = slices.Grow(c.words, frames*(stride-1))
	for i := range frames {
		from := len(c.words)
		for j := range stride - 1 {
			c.words = append(c.words, word(i*stride+j))
		}
		c.Frames = append(c.Frames, ChainFrame{c.words[from:], word(i*stride + stride - 1)})
	}
	return c.decodeCodes(b[8*frames*stride:], codes)
}

// codeHead is the number of words of a code object before the words of its cookie.
const codeHead = 4

func (c *Chain) decodeCodes(b []byte, codes int) error {
	le := binary.LittleEndian
	for range codes {
		if len(b) < 8*codeHead {
			return errChain
		}
		code := language.CodeObject{Address: le.Uint64(b), Cookie: le.Uint64(b[8:])}
		lengths, room := le.Uint64(b[16:]), le.Uint64(b[24:])
		b = b[8*codeHead:]
		words := int(room & 0xff)
		if len(b) < 8*words {
			return errChain
		}
		for i := range words {
			code.Words = append(code.Words, le.Uint64(b[8*i:]))
		}
		b = b[8*words:]
		texts := int(room >> 8 & 0xff)
		for i := range texts {
			length, has := int(lengths>>(16*i)&0xffff), 8*int(room>>(16+8*i)&0xff)
			if i >= language.MaxTexts || length > has || has > len(b) {
				return errChain
			}
			code.Text = append(code.Text, b[:length:length])
			b = b[has:]
		}
		c.Codes = append(c.Codes, code)
	}
	return nil
}
