package ehframe

import (
	"fmt"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// header is the start of an entry: its kind and its end.
type header struct {
	off   uint64 // of the length field
	body  uint64 // of the first byte after the CIE ID or pointer
	end   uint64 // of the next entry
	isCIE bool
	cie   uint64 // offset of the CIE of an FDE
}

// headerLen is the maximum length of the start of an entry: a 64-bit length and ID.
const headerLen = 4 + 8 + 8

// MaxEntry bounds the length of one entry. The longest entry seen in practice, for a generated
// parser, is under 1 MB.
const MaxEntry = 16 << 20

// zeroLength reports whether the entry is a terminator.
func (h header) zeroLength() bool { return h.end == h.off+4 }

// tooLong returns the error for an entry that exceeds its length limit.
func tooLong(length uint64) error {
	return limit.Hit(limit.CFI, fmt.Errorf("%w: %d bytes long", ErrUnsupported, length))
}

// header reads the start of the entry at off.
func (s *Section) header(off uint64) (header, error) {
	if off >= s.Size {
		return header{}, ErrEndOfSection
	}
	b, err := s.Source.Slice(off, headerLen)
	if err != nil {
		return header{}, fmt.Errorf("entry at offset %#x: %w", off, err)
	}
	r := &reader{b: b, order: s.Order}
	length, wide := uint64(r.u32()), false
	if length == 0xffffffff {
		length, wide = r.u64(), true
	}
	h := header{off: off}
	start := off + uint64(r.pos)
	if r.err != nil || length > s.Size-min(start, s.Size) {
		return header{}, fmt.Errorf("entry at offset %#x: %w", off, ErrTruncated)
	}
	h.end = start + length
	if length == 0 {
		return h, nil
	}
	if length > MaxEntry {
		return h, fmt.Errorf("entry at offset %#x: %w", off, tooLong(length))
	}
	s.readID(r, &h, wide)
	h.body = off + uint64(r.pos)
	if r.err == nil && h.body > h.end {
		r.failWith(ErrTruncated)
	}
	if r.err != nil {
		return h, fmt.Errorf("entry at offset %#x: %w", off, r.err)
	}
	return h, nil
}

// readID reads the CIE ID or CIE pointer. In .eh_frame it has 4 bytes and counts backwards from its own
// offset. In .debug_frame it is an offset in the section, of 4 or 8 bytes depending on the length
// format.
func (s *Section) readID(r *reader, h *header, wide bool) {
	if !s.Debug {
		at := h.off + uint64(r.pos)
		id := uint64(r.u32())
		h.isCIE, h.cie = id == 0, at-id
		if id > at {
			r.failWith(fmt.Errorf("%w: CIE pointer beyond the section", ErrInvalid))
		}
		return
	}
	if wide {
		h.cie = r.u64()
		h.isCIE = h.cie == 1<<64-1
		return
	}
	h.cie = uint64(r.u32())
	h.isCIE = h.cie == 1<<32-1
}

// bodyOf returns a reader of the entry's bytes after its ID.
func (s *Section) bodyOf(h header) (reader, error) {
	b, err := s.Source.Slice(h.body, int(h.end-h.body))
	if err == nil && uint64(len(b)) < h.end-h.body {
		err = ErrTruncated
	}
	if err != nil {
		return reader{}, fmt.Errorf("entry at offset %#x: %w", h.off, err)
	}
	return reader{b: b, addr: s.Addr + h.body, order: s.Order}, nil
}
