package ehframe

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"
)

// Index finds FDEs by address. Its entries are sorted by the start address of their FDEs.
type Index interface {
	// Len returns the number of entries.
	Len() int
	// Entry returns the start address of FDE i and the FDE's offset in the section. i must be in
	// [0, Len()).
	Entry(i int) (start, fde uint64, err error)
}

// Find returns the index in x of the last entry that starts at or before pc, -1 if there is none.
// The FDE there may end before pc.
func Find(x Index, pc uint64) (int, error) {
	if h, ok := x.(*Header); ok {
		if found, ok := h.findNear(pc); ok {
			return found, nil
		}
	}
	found, err := findEntry(x, pc)
	if h, ok := x.(*Header); ok && err == nil {
		h.last = max(found, 0)
	}
	return found, err
}

func findEntry(x Index, pc uint64) (int, error) {
	found, n := -1, x.Len()
	// Step by powers of two, so that all searches visit the same few entries first.
	for step := stepAbove(n); step > 0; step /= 2 {
		if found+step >= n {
			continue
		}
		start, _, err := x.Entry(found + step)
		if err != nil {
			return -1, err
		}
		if start <= pc {
			found += step
		}
	}
	return found, nil
}

// nearEntries is the number of entries after the previous result that findNear searches. They are
// smaller than one read of a section, and more than the functions in a page of text.
const nearEntries = 64

// findNear is a fast path of Find for callers that look up ascending pages of text. ok is false if
// pc is not within nearEntries after the previous result.
func (h *Header) findNear(pc uint64) (found int, ok bool) {
	found, end := h.last, min(h.last+nearEntries, h.count)
	if found >= end {
		return 0, false
	}
	first, _, err := h.Entry(found)
	if err != nil || first > pc {
		return 0, false
	}
	if end < h.count {
		if after, _, err := h.Entry(end); err != nil || after <= pc {
			return 0, false
		}
	}
	for found+1 < end {
		middle := (found + end) / 2
		start, _, err := h.Entry(middle)
		if err != nil {
			return 0, false
		}
		if start <= pc {
			found = middle
		} else {
			end = middle
		}
	}
	h.last = found
	return found, true
}

// stepAbove returns the first step of a search among n entries.
func stepAbove(n int) int { return 1 << bits.Len(uint(n)) / 2 }

// Scanned is an index made by reading the whole section once, for sections without a binary search
// table. It takes 16 bytes per FDE.
type Scanned struct {
	Beyond error // a *limit.Error if the section continues after a limit of FDEs

	entries []scannedEntry
}

type scannedEntry struct{ start, fde uint64 }

// Bytes returns the memory of the entries.
func (x *Scanned) Bytes() int { return cap(x.entries) * int(unsafe.Sizeof(scannedEntry{})) }

// Len returns the number of entries.
func (x *Scanned) Len() int { return len(x.entries) }

// Entry returns the start address of FDE i and the FDE's offset.
func (x *Scanned) Entry(i int) (start, fde uint64, err error) {
	return x.entries[i].start, x.entries[i].fde, nil
}

// Scan reads every entry of s. It leaves out FDEs without text and unreadable FDEs, and counts the
// unreadable FDEs in bad.
func Scan(s *Section) (x *Scanned, bad int) {
	x = new(Scanned)
	NewReader(s).FDEs(func(f FDE, err error) bool {
		switch {
		case errors.Is(err, errScan):
			x.Beyond = err
		case err != nil:
			bad++
		case f.Start < f.End:
			x.entries = append(x.entries, scannedEntry{f.Start, f.Offset})
		}
		return true
	})
	slices.SortStableFunc(x.entries, func(a, b scannedEntry) int { return cmp.Compare(a.start, b.start) })
	x.entries = slices.Clip(x.entries)
	return x, bad
}

// Header is the binary search table of an .eh_frame_hdr section. It reads entries from the Source
// on demand, and caches only the few entries that every search visits first.
type Header struct {
	EHFrame uint64 // ELF virtual address of .eh_frame

	hdr   Section
	enc   Encoding
	size  int // bytes of one address in the table
	table uint64
	count int
	first map[int]scannedEntry // cached entries of the first steps of searches
	last  int                  // index of the previous result, where the next search starts
}

// firstEntries is the approximate number of entries that a Header caches, from the first steps of
// searches. The entries of the remaining steps are so close together that one read gets them all.
const firstEntries = 1024

// ParseHeader reads the start of an .eh_frame_hdr section. The error is ErrUnsupported if the
// section has no searchable table; EHFrame is valid even then.
func ParseHeader(s *Section) (*Header, error) {
	b, err := s.Source.Slice(0, 4+2*10)
	if err != nil {
		return nil, fmt.Errorf(".eh_frame_hdr: %w", err)
	}
	r := &reader{b: b, addr: s.Addr, order: s.Order}
	version, ptrEnc, countEnc, tableEnc := r.u8(), Encoding(r.u8()), Encoding(r.u8()), Encoding(r.u8())
	if r.err == nil && (version != 1 || !ptrEnc.direct()) {
		return nil, fmt.Errorf(".eh_frame_hdr: %w: version %d, pointer encoding %#02x", ErrUnsupported, version,
			uint8(ptrEnc))
	}
	h := &Header{hdr: *s, enc: tableEnc}
	h.hdr.DataAddr = s.Addr // in this section, data-relative means relative to its start
	base := h.hdr.bases(s.AddrSize, 0)
	h.EHFrame = r.pointer(ptrEnc, base)
	if r.err != nil {
		return nil, fmt.Errorf(".eh_frame_hdr: %w", r.err)
	}
	h.size = tableEnc.size(s.AddrSize)
	if !countEnc.direct() || !tableEnc.direct() || h.size == 0 || tableEnc&peBase == PEAligned {
		return h, fmt.Errorf(".eh_frame_hdr: %w: no table to search, encoding %#02x", ErrUnsupported, uint8(tableEnc))
	}
	count := r.pointer(countEnc, base)
	if r.err != nil {
		return h, fmt.Errorf(".eh_frame_hdr: %w", r.err)
	}
	h.table = uint64(r.pos)
	h.count = int(min(count, (s.Size-min(h.table, s.Size))/uint64(2*h.size)))
	return h, nil
}

// Len returns the number of entries, limited to the entries that fit in the section.
func (h *Header) Len() int { return h.count }

// Entry returns the start address of FDE i and the FDE's offset from EHFrame. The offset is outside
// the section if the entry is wrong.
func (h *Header) Entry(i int) (start, fde uint64, err error) {
	if (i+1)%max(2*stepAbove(h.count)/firstEntries, 1) != 0 {
		return h.readEntry(i)
	}
	if e, ok := h.first[i]; ok {
		return e.start, e.fde, nil
	}
	if start, fde, err = h.readEntry(i); err == nil {
		if h.first == nil {
			h.first = map[int]scannedEntry{}
		}
		h.first[i] = scannedEntry{start, fde}
	}
	return start, fde, err
}

func (h *Header) readEntry(i int) (start, fde uint64, err error) {
	off := h.table + uint64(i)*uint64(2*h.size)
	b, err := h.hdr.Source.Slice(off, 2*h.size)
	if err != nil {
		return 0, 0, fmt.Errorf(".eh_frame_hdr entry %d: %w", i, err)
	}
	r := reader{b: b, addr: h.hdr.Addr + off, order: h.hdr.Order}
	base := h.hdr.bases(h.hdr.AddrSize, 0)
	start = r.pointer(h.enc, base)
	fde = r.pointer(h.enc, base)
	if r.err != nil {
		return 0, 0, fmt.Errorf(".eh_frame_hdr entry %d: %w", i, r.err)
	}
	return start, fde - h.EHFrame, nil
}
