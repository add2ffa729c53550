package ehframe

import (
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/common/limit"
)

// FDE is a frame description entry: the unwind information of one range of text.
type FDE struct {
	Offset          uint64 // of its length field, in the section
	CIE             *CIE
	Start, End      uint64 // ELF virtual addresses; Start == End for an entry without text
	LSDA            uint64 // address of the language-specific data, 0 for none
	Instructions    []byte // refers to the section's bytes, valid as long as Source.Slice says
	instructionAddr uint64 // ELF virtual address of Instructions[0]
	bases           bases
	sec             *Section
}

// Contains reports whether f covers pc.
func (f *FDE) Contains(pc uint64) bool { return f.Start <= pc && pc < f.End }

// maxCIEs bounds the CIEs that a Reader caches.
const maxCIEs = 64

// Reader reads FDEs and caches their CIEs. It must not be used concurrently.
type Reader struct {
	sec     *Section
	cieSec  *Section // sec with CIEs as its Source, if set
	cies    map[uint64]*CIE
	cieRead int // CIE reads, which include repeated reads if there are more than maxCIEs
}

// NewReader returns a reader of s, which must not change.
func NewReader(s *Section) *Reader {
	r := &Reader{sec: s, cieSec: s, cies: make(map[uint64]*CIE)}
	if s.CIEs != nil {
		other := *s
		other.Source = s.CIEs
		r.cieSec = &other
	}
	return r
}

// readCIE returns the CIE at off.
func (r *Reader) readCIE(off uint64) (*CIE, error) {
	if c := r.cies[off]; c != nil {
		return c, nil
	}
	r.cieRead++
	c, err := r.cieSec.CIE(off)
	if err != nil {
		return nil, err
	}
	if len(r.cies) >= maxCIEs {
		clear(r.cies)
	}
	r.cies[off] = c
	return c, nil
}

// FDE reads the frame description entry at section offset off.
func (r *Reader) FDE(off uint64) (FDE, error) {
	h, err := r.sec.header(off)
	if err != nil {
		return FDE{}, err
	}
	return r.readFDE(h)
}

func (r *Reader) readFDE(h header) (FDE, error) {
	if h.isCIE || h.zeroLength() {
		return FDE{}, fmt.Errorf("%w: no FDE at offset %#x", ErrInvalid, h.off)
	}
	c, err := r.readCIE(h.cie)
	if err != nil {
		return FDE{}, fmt.Errorf("FDE at offset %#x: %w", h.off, err)
	}
	b, err := r.sec.bodyOf(h)
	if err != nil {
		return FDE{}, err
	}
	f := FDE{Offset: h.off, CIE: c, sec: r.sec}
	f.parse(&b)
	if b.err != nil {
		return f, fmt.Errorf("FDE at offset %#x: %w", h.off, b.err)
	}
	return f, nil
}

// parse reads the fields of f from b, which starts after the CIE pointer.
func (f *FDE) parse(b *reader) {
	c := f.CIE
	f.bases = f.sec.bases(c.AddrSize, 0)
	b.takeBytes(uint64(c.SegmentSize))
	f.Start = b.pointer(c.FDEEncoding, f.bases)
	size := b.number(c.FDEEncoding, c.AddrSize)
	if b.err != nil {
		return
	}
	var ok bool
	if f.End, ok = addAddress(f.Start, size, c.AddrSize); !ok {
		b.failWith(fmt.Errorf("%w: range beyond the address space", ErrInvalid))
		return
	}
	f.bases.fn = f.Start
	if c.hasLength {
		n := b.uleb()
		at := b.addr + uint64(b.pos)
		f.augment(&reader{addr: at, b: b.takeBytes(n), order: b.order})
	}
	f.instructionAddr = b.addr + uint64(b.pos)
	f.Instructions = b.b[b.pos:]
}

// augment reads the LSDA pointer. If the pointer is unreadable, the entry stays usable: unwinding
// does not need the pointer.
func (f *FDE) augment(data *reader) {
	e := f.CIE.LSDAEncoding
	if e == PEOmit || data.len() == 0 {
		return
	}
	probe := *data
	if probe.number(e, f.CIE.AddrSize) == 0 { // a null pointer, independent of its base
		return
	}
	if lsda := data.pointer(e, f.bases); data.err == nil {
		f.LSDA = lsda
	}
}

// Limits on a walk over all entries. Chromium has some 1.5 million FDEs in 70 MB.
const (
	MaxScan        = 512 << 20 // bytes of the section
	MaxScanEntries = 4 << 20   // entries of all kinds, including terminators
	MaxScanCIEs    = 256 << 10 // CIE reads; most CIEs are read once, just before their FDEs
)

// errScan says that a walk stopped at a limit before the end of the section.
var errScan = errors.New("too many or too large entries to read them all")

// FDEs calls yield for every FDE of the section, ordered by offset, until yield returns false. For
// an unreadable entry it passes the Offset and an error, and continues after the entry if the
// entry's length is plausible. A terminator ends .eh_frame, because other data may follow in a file
// without section headers. The walk ends with an error at MaxScan, MaxScanEntries and MaxScanCIEs.
func (r *Reader) FDEs(yield func(FDE, error) bool) {
	entries, before := 0, r.cieRead
	for off := uint64(0); off < r.sec.Size; entries++ {
		if off >= MaxScan || entries >= MaxScanEntries || r.cieRead-before > MaxScanCIEs {
			yield(FDE{Offset: off}, fmt.Errorf("entry at offset %#x: %w", off, limit.Hit(limit.CFI, errScan)))
			return
		}
		h, err := r.sec.header(off)
		if err != nil && h.end <= off { // the start of the next entry is unknown
			yield(FDE{Offset: off}, err)
			return
		}
		if err == nil && h.zeroLength() && !r.sec.Debug {
			return
		}
		if err == nil && (h.zeroLength() || h.isCIE) {
			off = h.end
			continue
		}
		f := FDE{Offset: off}
		if err == nil {
			f, err = r.readFDE(h)
			f.Offset = off
		}
		if !yield(f, err) {
			return
		}
		off = h.end
	}
}
