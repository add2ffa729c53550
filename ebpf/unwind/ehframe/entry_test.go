package ehframe_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

const sectionAddr = 0x500000

func section(b ehtest.Asm, debug bool) *ehframe.Section {
	return &ehframe.Section{
		Source: ehframe.Bytes(b), Size: uint64(len(b)), Addr: sectionAddr, TextAddr: 0x400000, DataAddr: 0x600000,
		Order: binary.LittleEndian, AddrSize: 8, Debug: debug,
	}
}

// cieBytes assembles a CIE of version 1 with the augmentation and its data.
func cieBytes(augmentation string, data ehtest.Asm) ehtest.Asm {
	f := &ehtest.Frames{}
	b := ehtest.Asm{}.Op(1).Str(augmentation).Uleb(1).Sleb(-8).Op(16)
	f.Entry(0, append(b.Block(data), initial()...))
	return f.Bytes
}

// TestPointerEncodings writes the same address in every encoding, as defined in LSB Core 5.0,
// tables 10-5 and 10-6.
func TestPointerEncodings(t *testing.T) {
	const want = 0x401000
	for name, c := range map[string]struct {
		enc   byte
		write func(at uint64) ehtest.Asm // the pointer for address at
		size  ehtest.Asm
	}{
		"absptr":  {0x00, func(uint64) ehtest.Asm { return ehtest.Asm{}.U64(want) }, ehtest.Asm{}.U64(16)},
		"uleb128": {0x01, func(uint64) ehtest.Asm { return ehtest.Asm{}.Uleb(want) }, ehtest.Asm{}.Uleb(16)},
		"udata4":  {0x03, func(uint64) ehtest.Asm { return ehtest.Asm{}.U32(want) }, ehtest.Asm{}.U32(16)},
		"udata8":  {0x04, func(uint64) ehtest.Asm { return ehtest.Asm{}.U64(want) }, ehtest.Asm{}.U64(16)},
		"sleb128": {0x09, func(uint64) ehtest.Asm { return ehtest.Asm{}.Sleb(want) }, ehtest.Asm{}.Sleb(16)},
		"sdata4":  {0x0b, func(uint64) ehtest.Asm { return ehtest.Asm{}.U32(want) }, ehtest.Asm{}.U32(16)},
		"sdata8":  {0x0c, func(uint64) ehtest.Asm { return ehtest.Asm{}.U64(want) }, ehtest.Asm{}.U64(16)},
		"pcrel sdata4": {0x1b, func(at uint64) ehtest.Asm { return ehtest.Asm{}.U32(uint32(want - at)) },
			ehtest.Asm{}.U32(16)},
		"pcrel absptr": {0x10, func(at uint64) ehtest.Asm { return ehtest.Asm{}.U64(want - at) },
			ehtest.Asm{}.U64(16)},
		"textrel udata2": {0x22, func(uint64) ehtest.Asm { return ehtest.Asm{}.U16(0x1000) }, ehtest.Asm{}.U16(16)},
		"datarel sdata4": {0x3b, func(uint64) ehtest.Asm { return ehtest.Asm{}.U32(0xffffffff & (want - 0x600000 + 1<<32)) },
			ehtest.Asm{}.U32(16)},
		"aligned": {0x50, func(uint64) ehtest.Asm { return ehtest.Asm{}.U64(want) }, ehtest.Asm{}.U64(16)},
	} {
		t.Run(name, func(t *testing.T) {
			b := cieBytes("zR", ehtest.Asm{}.Op(c.enc))
			off := uint64(len(b))
			f := &ehtest.Frames{Bytes: b}
			f.Entry(uint32(off+4), append(append(c.write(sectionAddr+off+8), c.size...), 0))
			fde, err := ehframe.NewReader(section(f.Bytes, false)).FDE(off)
			if err != nil {
				t.Fatal(err)
			}
			if fde.Start != want || fde.End != want+16 {
				t.Errorf("range %#x-%#x, want %#x-%#x", fde.Start, fde.End, want, want+16)
			}
		})
	}
}

func TestRefusedEncodings(t *testing.T) {
	for name, c := range map[string]struct {
		augmentation string
		data         ehtest.Asm
		want         error
	}{
		"indirect":     {"zR", ehtest.Asm{}.Op(0x9b), ehframe.ErrUnsupported},
		"omitted":      {"zR", ehtest.Asm{}.Op(0xff), ehframe.ErrUnsupported},
		"funcrel":      {"zR", ehtest.Asm{}.Op(0x4b), ehframe.ErrUnsupported},
		"unknown":      {"zX", ehtest.Asm{}, ehframe.ErrUnsupported},
		"no z":         {"Q", ehtest.Asm{}, ehframe.ErrUnsupported},
		"too long":     {"zR", make(ehtest.Asm, 4096), ehframe.ErrUnsupported},
		"data missing": {"zPR", ehtest.Asm{}.Op(0x03), ehframe.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := section(cieBytes(c.augmentation, c.data), false).CIE(0); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestAugmentations(t *testing.T) {
	data := ehtest.Asm{}.Op(0x9b).U32(0x10).Op(0x1b).Op(0x1b) // P, L, R
	c, err := section(cieBytes("zPLRSB", data), false).CIE(0)
	if err != nil {
		t.Fatal(err)
	}
	pointer := sectionAddr + 8 + 1 + uint64(len("zPLRSB")+1) + 3 + 1 + 1
	switch {
	case !c.SignalFrame, !c.BKey:
		t.Error("S or B was not seen")
	case c.PersonalityEnc != 0x9b || c.Personality != pointer+0x10:
		t.Errorf("personality %#x encoded %#x, want %#x", c.Personality, c.PersonalityEnc, pointer+0x10)
	case c.LSDAEncoding != 0x1b || c.FDEEncoding != 0x1b:
		t.Errorf("encodings %#x, %#x", c.LSDAEncoding, c.FDEEncoding)
	case c.CodeAlign != 1 || c.DataAlign != -8 || c.ReturnRegister != 16:
		t.Errorf("factors %d, %d, return register %d", c.CodeAlign, c.DataAlign, c.ReturnRegister)
	}
}

// TestOldAugmentation reads the "eh" augmentation of GCC 2, in which a pointer follows the string.
func TestOldAugmentation(t *testing.T) {
	f := &ehtest.Frames{}
	f.Entry(0, append(ehtest.Asm{}.Op(1).Str("eh").U64(0xdead).Uleb(1).Sleb(-8).Op(16), initial()...))
	c, err := section(f.Bytes, false).CIE(0)
	if err != nil || c.DataAlign != -8 || c.ReturnRegister != 16 {
		t.Errorf("CIE %+v, error %v", c, err)
	}
}

// TestDebugFrameVersions reads CIEs of versions 1, 3 and 4 in .debug_frame,
// the last with 64-bit lengths.
func TestDebugFrameVersions(t *testing.T) {
	body := func(version byte) ehtest.Asm {
		b := ehtest.Asm{}.Op(version).Str("")
		if version == 4 {
			b = b.Op(8).Op(0)
		}
		return append(b.Uleb(1).Sleb(-8).Op(16), initial()...)
	}
	for _, version := range []byte{1, 3, 4} {
		f := &ehtest.Frames{Debug: true}
		cie := f.Entry(0xffffffff, body(version))
		fde := f.FDE(cie, textStart, 256, nil)
		checkDebugFDE(t, f.Bytes, fde)
	}
	cie := body(4)
	b := append(ehtest.Asm{}.U32(0xffffffff).U64(uint64(8+len(cie))).U64(1<<64-1), cie...)
	fde := uint64(len(b))
	b = b.U32(0xffffffff).U64(8 + 16).U64(0).U64(textStart).U64(256)
	checkDebugFDE(t, b, fde)
}

func checkDebugFDE(t *testing.T, b ehtest.Asm, off uint64) {
	t.Helper()
	fde, err := ehframe.NewReader(section(b, true)).FDE(off)
	if err != nil {
		t.Fatal(err)
	}
	if fde.Start != textStart || fde.End != textStart+256 {
		t.Errorf("range %#x-%#x", fde.Start, fde.End)
	}
}

// TestLSDA reads the LSDA pointer; zero means none.
func TestLSDA(t *testing.T) {
	for _, want := range []uint64{0x402000, 0} {
		b := cieBytes("zLR", ehtest.Asm{}.Op(0x1b).Op(0x1b))
		off := uint64(len(b))
		f := &ehtest.Frames{Bytes: b}
		at := sectionAddr + off + 8
		lsda := uint32(0)
		if want != 0 {
			lsda = uint32(want - (at + 9))
		}
		f.Entry(uint32(off+4), ehtest.Asm{}.U32(uint32(textStart-at)).U32(16).Block(ehtest.Asm{}.U32(lsda)))
		fde, err := ehframe.NewReader(section(f.Bytes, false)).FDE(off)
		if err != nil || fde.LSDA != want {
			t.Errorf("LSDA %#x, %v, want %#x", fde.LSDA, err, want)
		}
	}
}

// TestRangeOverflow refuses an FDE that exceeds the address space.
func TestRangeOverflow(t *testing.T) {
	b := cieBytes("zR", ehtest.Asm{}.Op(0x00))
	off := uint64(len(b))
	f := &ehtest.Frames{Bytes: b}
	f.Entry(uint32(off+4), ehtest.Asm{}.U64(1<<64-16).U64(32).Uleb(0))
	if _, err := ehframe.NewReader(section(f.Bytes, false)).FDE(off); !errors.Is(err, ehframe.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
}

// TestScan reads a section without a table: the index is sorted, without empty FDEs, continues
// after a bad FDE, and ends at the terminator.
func TestScan(t *testing.T) {
	f := &ehtest.Frames{Addr: sectionAddr}
	cie := f.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	second := f.FDE(cie, textStart+64, 64, nil)
	f.Entry(0x7fffffff, nil) // its CIE is before the section
	f.FDE(cie, textStart+32, 0, nil)
	first := f.FDE(cie, textStart, 32, nil)
	f.Bytes = f.Bytes.U32(0)
	f.FDE(cie, textStart+256, 16, nil)

	x, bad := ehframe.Scan(f.Section())
	if bad != 1 || x.Len() != 2 {
		t.Fatalf("%d bad, %d entries, want 1 and 2", bad, x.Len())
	}
	for i, want := range []uint64{first, second} {
		if _, off, _ := x.Entry(i); off != want {
			t.Errorf("entry %d is the FDE at %#x, want %#x", i, off, want)
		}
	}
}

// TestHeaderEncodings looks an address up in tables of every fixed-size
// encoding.
func TestHeaderEncodings(t *testing.T) {
	const addr = 0x480000
	starts := []uint64{textStart, textStart + 64, textStart + 4096}
	for name, c := range map[string]struct {
		enc   byte
		write func(b ehtest.Asm, v, at uint64) ehtest.Asm
	}{
		"datarel sdata4": {0x3b, func(b ehtest.Asm, v, _ uint64) ehtest.Asm { return b.U32(uint32(v - addr)) }},
		"pcrel sdata4":   {0x1b, func(b ehtest.Asm, v, at uint64) ehtest.Asm { return b.U32(uint32(v - at)) }},
		"udata4":         {0x03, func(b ehtest.Asm, v, _ uint64) ehtest.Asm { return b.U32(uint32(v)) }},
		"absptr":         {0x00, func(b ehtest.Asm, v, _ uint64) ehtest.Asm { return b.U64(v) }},
		"datarel sdata8": {0x3c, func(b ehtest.Asm, v, _ uint64) ehtest.Asm { return b.U64(v - addr) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := ehtest.Asm{}.Op(1).Op(0x1b).Op(0x03).Op(c.enc).U32(uint32(sectionAddr - (addr + 4))).U32(uint32(len(starts)))
			for i, start := range starts {
				b = c.write(b, start, addr+uint64(len(b)))
				b = c.write(b, sectionAddr+uint64(i)*16, addr+uint64(len(b)))
			}
			s := section(b, false)
			s.Addr = addr
			h, err := ehframe.ParseHeader(s)
			if err != nil {
				t.Fatal(err)
			}
			if h.EHFrame != sectionAddr || h.Len() != len(starts) {
				t.Fatalf(".eh_frame at %#x, %d entries", h.EHFrame, h.Len())
			}
			for pc, want := range map[uint64]int{textStart - 1: -1, textStart: 0, textStart + 63: 0, textStart + 64: 1,
				textStart + 5000: 2} {
				if got, err := ehframe.Find(h, pc); got != want || err != nil {
					t.Errorf("pc %#x: entry %d, %v, want %d", pc, got, err, want)
				}
			}
			if _, off, err := h.Entry(2); off != 32 || err != nil {
				t.Errorf("entry 2: FDE at %#x, %v", off, err)
			}
		})
	}
}

// TestHeaderCountIsBounded checks that a count that exceeds the section is limited.
func TestHeaderCountIsBounded(t *testing.T) {
	b := ehtest.Asm{}.Op(1).Op(0x1b).Op(0x03).Op(0x3b).U32(0).U32(1 << 31).U32(0).U32(0)
	h, err := ehframe.ParseHeader(section(b, false))
	if err != nil || h.Len() != 1 {
		t.Errorf("%d entries, %v, want 1", h.Len(), err)
	}
}

// zeros is a section of a sparse file.
type zeros struct{}

func (zeros) Slice(_ uint64, n int) ([]byte, error) { return make([]byte, n), nil }

// TestScanIsBounded requires that a scan of .debug_frame in a sparse file ends: it consists only of
// terminators.
func TestScanIsBounded(t *testing.T) {
	sparse := &ehframe.Section{Source: zeros{}, Size: 1 << 41, Order: binary.LittleEndian, AddrSize: 8, Debug: true}
	if x, bad := ehframe.Scan(sparse); x.Len() > 0 || bad > 0 {
		t.Errorf("%d entries, %d bad", x.Len(), bad)
	}
}
