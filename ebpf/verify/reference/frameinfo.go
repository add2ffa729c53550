package reference

import (
	"fmt"
	"strings"
)

// section holds the contents of .eh_frame or .debug_frame.
type section struct {
	data  []byte
	addr  uint64 // ELF virtual address, the base of .eh_frame's pointers
	debug bool   // it is .debug_frame
}

// cie is a common information entry (DWARF 5, 6.4.1; LSB 5.0, 10.6.1.1).
type cie struct {
	codeAlign      uint64
	dataAlign      int64
	returnRegister uint64
	augmented      bool // it has augmentation data ("z")
	signal         bool // its FDEs are for signal trampolines
	pointer        byte // encoding of the addresses in FDEs
	instructions   span
}

// span is a range of bytes of a section.
type span struct{ from, to int }

// fde is a frame description entry: the rules of the addresses from start to end, without end.
type fde struct {
	offset       uint64 // offset in its section
	start, end   uint64 // ELF virtual addresses
	cie          *cie
	instructions span
}

// Encodings of pointers (LSB 5.0, 10.5.1): the low four bits are the format of the number, the next three bits its
// base.
const (
	formatAbsolute = 0x00
	formatULEB     = 0x01
	formatU2       = 0x02
	formatU4       = 0x03
	formatU8       = 0x04
	formatSLEB     = 0x09
	formatS2       = 0x0a
	formatS4       = 0x0b
	formatS8       = 0x0c
	formatMask     = 0x0f

	fromNothing = 0x00
	fromHere    = 0x10
	fromMask    = 0x70
	aligned     = 0x50
)

// entries reads all FDEs of the section. It leaves out unreadable entries, and returns the first error along with the
// readable ones.
func (s *section) entries() (all []fde, first error) {
	cies := map[uint64]*cie{}
	for c := (&cursor{data: s.data}); !c.done(); {
		offset := uint64(c.at)
		length, size := c.unsigned(4), 4
		if length == 0xffffffff {
			length, size = c.unsigned(8), 8
		}
		if length == 0 {
			continue // end of the entries of one object file
		}
		idAt := uint64(c.at)
		c.bytes(length)
		if c.err != nil {
			return all, fmt.Errorf("entry at %#x: %w", offset, c.err)
		}
		entry := &cursor{data: s.data[:c.at], at: int(idAt)}
		if !s.debug {
			size = 4
		}
		id := entry.unsigned(size)
		if s.isCIE(id, size) {
			continue // a CIE is read with its first FDE
		}
		cieAt := id
		if !s.debug {
			cieAt = idAt - id
		}
		f, err := s.readFDE(entry, cieAt, cies)
		f.offset = offset
		switch {
		case err == nil:
			all = append(all, f)
		case first == nil:
			first = fmt.Errorf("FDE at %#x: %w", offset, err)
		}
	}
	return all, first
}

func (s *section) isCIE(id uint64, size int) bool {
	switch {
	case !s.debug:
		return id == 0
	case size == 8:
		return id == ^uint64(0)
	}
	return id == 0xffffffff
}

// readFDE reads an FDE after its CIE pointer.
func (s *section) readFDE(c *cursor, cieAt uint64, cies map[uint64]*cie) (fde, error) {
	common, known := cies[cieAt]
	if !known {
		var err error
		if common, err = s.readCIE(cieAt); err != nil {
			return fde{}, fmt.Errorf("CIE at %#x: %w", cieAt, err)
		}
		cies[cieAt] = common
	}
	f := fde{cie: common}
	f.start = s.pointer(c, common.pointer)
	f.end = f.start + s.pointer(c, common.pointer&formatMask) // a length has no base
	if common.augmented {
		c.bytes(c.uleb())
	}
	f.instructions = span{c.at, len(c.data)}
	return f, c.err
}

// readCIE reads the common information entry at an offset.
func (s *section) readCIE(at uint64) (*cie, error) {
	if at >= uint64(len(s.data)) {
		return nil, fmt.Errorf("the section has %d bytes", len(s.data))
	}
	c := &cursor{data: s.data, at: int(at)}
	length, size := c.unsigned(4), 4
	if length == 0xffffffff {
		length, size = c.unsigned(8), 8
	}
	begin := c.at
	c.bytes(length)
	if c.err != nil {
		return nil, c.err
	}
	c = &cursor{data: s.data[:c.at], at: begin}
	if !s.debug {
		size = 4
	}
	if id := c.unsigned(size); !s.isCIE(id, size) {
		return nil, fmt.Errorf("ID %#x is not that of a CIE", id)
	}
	return s.common(c)
}

// common reads a CIE after its ID.
func (s *section) common(c *cursor) (*cie, error) {
	version := c.unsigned(1)
	augmentation := c.readText()
	if version == 4 {
		if addr, segment := c.unsigned(1), c.unsigned(1); addr != 8 || segment != 0 {
			return nil, fmt.Errorf("addresses of %d bytes, segment selectors of %d", addr, segment)
		}
	} else if version != 1 && version != 3 {
		return nil, fmt.Errorf("version %d", version)
	}
	out := &cie{}
	out.codeAlign, out.dataAlign = c.uleb(), c.sleb()
	if version == 1 {
		out.returnRegister = c.unsigned(1)
	} else {
		out.returnRegister = c.uleb()
	}
	if letters, ok := strings.CutPrefix(augmentation, "z"); ok {
		if err := s.augment(out, letters, c); err != nil {
			return nil, err
		}
	} else if augmentation != "" {
		return nil, fmt.Errorf("augmentation %q", augmentation)
	}
	out.instructions = span{c.at, len(c.data)}
	return out, c.err
}

// augment reads the augmentation data of a CIE (LSB 5.0, 10.6.1.1.1).
func (s *section) augment(out *cie, letters string, c *cursor) error {
	out.augmented = true
	length := c.uleb()
	end := uint64(c.at) + length
	for _, letter := range letters {
		switch letter {
		case 'L':
			c.unsigned(1)
		case 'P':
			s.pointer(c, byte(c.unsigned(1)))
		case 'R':
			out.pointer = byte(c.unsigned(1))
		case 'S':
			out.signal = true
		case 'B', 'G': // arm64: return addresses are signed with key B; memory tags
		default:
			return fmt.Errorf("augmentation %q", letters)
		}
	}
	if uint64(c.at) > end || end > uint64(len(c.data)) {
		return fmt.Errorf("augmentation data of %d bytes for %q", length, letters)
	}
	c.at = int(end)
	return c.err
}

// pointer reads an encoded address. It does not follow indirect pointers.
func (s *section) pointer(c *cursor, encoding byte) uint64 {
	here := s.addr + uint64(c.at)
	if encoding == aligned {
		c.bytes(-here & 7)
		return c.unsigned(8)
	}
	var v uint64
	switch encoding & formatMask {
	case formatAbsolute, formatU8, formatS8:
		v = c.unsigned(8)
	case formatULEB:
		v = c.uleb()
	case formatU2:
		v = c.unsigned(2)
	case formatU4:
		v = c.unsigned(4)
	case formatSLEB:
		v = uint64(c.sleb())
	case formatS2:
		v = uint64(c.signed(2))
	case formatS4:
		v = uint64(c.signed(4))
	default:
		c.failWith("pointer encoding %#x", encoding)
	}
	switch encoding & fromMask {
	case fromNothing:
	case fromHere:
		v += here
	default:
		c.failWith("pointer encoding %#x", encoding)
	}
	return v
}
