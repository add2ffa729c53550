package ehframe

import (
	"fmt"
	"strings"
)

// CIE is a common information entry: data that many FDEs share.
type CIE struct {
	Offset          uint64   // of its length field, in the section
	Version         uint8    // 1, 3 or 4
	Augmentation    string   // as written
	AddrSize        int      // bytes of an address, 4 or 8
	SegmentSize     int      // bytes of a segment selector, almost always 0
	CodeAlign       uint64   // factor of code offsets
	DataAlign       int64    // factor of data offsets
	ReturnRegister  uint64   // DWARF number of the return address column
	FDEEncoding     Encoding // of addresses in FDEs
	LSDAEncoding    Encoding // of LSDA pointers in FDEs, PEOmit if none
	Personality     uint64   // address of the personality routine, 0 if none
	PersonalityEnc  Encoding // its encoding; with PEIndirect, Personality is the address of a slot
	SignalFrame     bool     // augmentation S: the FDEs describe signal trampolines
	BKey            bool     // augmentation B: arm64 return addresses are signed with the B key
	Instructions    []byte   // the initial instructions
	instructionAddr uint64   // ELF virtual address of Instructions[0]
	hasLength       bool     // augmentation z: FDEs state the length of their augmentation data
}

// MaxCIE bounds the length of a CIE. The CIEs of compilers are below 64 bytes. In the worst case, a
// Reader reads a CIE again for every FDE.
const MaxCIE = 4 << 10

// CIE reads the common information entry at section offset off. The result
// does not refer to the section's bytes.
func (s *Section) CIE(off uint64) (*CIE, error) {
	h, err := s.header(off)
	if err != nil {
		return nil, err
	}
	if !h.isCIE {
		return nil, fmt.Errorf("%w: no CIE at offset %#x", ErrInvalid, off)
	}
	if h.end-h.off > MaxCIE {
		return nil, fmt.Errorf("CIE at offset %#x: %w", off, tooLong(h.end-h.off))
	}
	r, err := s.bodyOf(h)
	if err != nil {
		return nil, err
	}
	c := &CIE{Offset: off, AddrSize: s.AddrSize, LSDAEncoding: PEOmit, PersonalityEnc: PEOmit}
	c.fixed(&r)
	c.augment(&r, s)
	if r.err != nil {
		return nil, fmt.Errorf("CIE at offset %#x: %w", off, r.err)
	}
	c.instructionAddr = r.addr + uint64(r.pos)
	c.Instructions = append([]byte(nil), r.b[r.pos:]...)
	return c, nil
}

// fixed reads the fields before the augmentation data.
func (c *CIE) fixed(r *reader) {
	c.Version = r.u8()
	if r.err == nil && c.Version != 1 && c.Version != 3 && c.Version != 4 {
		r.failWith(fmt.Errorf("%w: CIE version %d", ErrUnsupported, c.Version))
	}
	c.Augmentation = r.cstring()
	if c.Augmentation == "eh" { // the EH data field of GCC before 3.0
		r.takeBytes(uint64(c.AddrSize))
	}
	if c.Version >= 4 {
		c.AddrSize, c.SegmentSize = int(r.u8()), int(r.u8())
		if r.err == nil && (c.AddrSize != 4 && c.AddrSize != 8 || c.SegmentSize > 8) {
			r.failWith(fmt.Errorf("%w: addresses of %d bytes, segments of %d", ErrUnsupported, c.AddrSize, c.SegmentSize))
		}
	}
	c.CodeAlign = r.uleb()
	c.DataAlign = r.sleb()
	if c.Version == 1 {
		c.ReturnRegister = uint64(r.u8())
	} else {
		c.ReturnRegister = r.uleb()
	}
}

// augment reads the augmentation data, one letter of the string at a time.
func (c *CIE) augment(r *reader, s *Section) {
	if r.err != nil || c.Augmentation == "" || c.Augmentation == "eh" {
		return
	}
	letters, hasLength := strings.CutPrefix(c.Augmentation, "z")
	c.hasLength = hasLength
	end := len(r.b)
	if hasLength {
		n := r.uleb()
		if n > uint64(r.len()) {
			r.failWith(ErrTruncated)
			return
		}
		end = r.pos + int(n)
	}
	for _, letter := range []byte(letters) {
		if c.letter(letter, r, s); r.err != nil {
			return
		}
	}
	if r.pos > end {
		r.failWith(fmt.Errorf("%w: augmentation data longer than stated", ErrInvalid))
	} else if hasLength {
		r.pos = end
	}
}

func (c *CIE) letter(letter byte, r *reader, s *Section) {
	switch letter {
	case 'R':
		c.FDEEncoding = Encoding(r.u8())
		if !c.FDEEncoding.direct() {
			r.failWith(fmt.Errorf("%w: encoding %#02x of FDE addresses", ErrUnsupported, uint8(c.FDEEncoding)))
		}
	case 'P':
		c.PersonalityEnc = Encoding(r.u8())
		if c.PersonalityEnc != PEOmit {
			c.Personality = r.pointer(c.PersonalityEnc, s.bases(c.AddrSize, 0))
		}
	case 'L':
		c.LSDAEncoding = Encoding(r.u8())
	case 'S':
		c.SignalFrame = true
	case 'B':
		c.BKey = true
	case 'G': // arm64: the frame's stack memory is tagged; no data
	default:
		r.failWith(fmt.Errorf("%w: augmentation %q", ErrUnsupported, c.Augmentation))
	}
}

func (s *Section) bases(addrSize int, fn uint64) bases {
	return bases{text: s.TextAddr, data: s.DataAddr, fn: fn, addrSize: addrSize}
}
