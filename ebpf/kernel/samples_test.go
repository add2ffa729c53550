package kernel

import (
	"encoding/binary"
	"slices"
	"testing"
	"unsafe"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/tablestore"
)

// The numbers of ebpf/unwind and of bpf/abi/abi.h are the same.
func TestSharedNumbers(t *testing.T) {
	for got, want := range map[uint32]uint32{
		uint32(unwind.MinPageShift):                          uint32(profilerLimitsMIN_ROW_PAGE_SHIFT),
		1700 + uint32(unwind.MaxPageShift):                   1700 + uint32(profilerLimitsMAX_ROW_PAGE_SHIFT),
		100 + uint32(unwind.NumOutcomes):                     100 + uint32(profilerOutcomeOUTCOMES),
		200 + uint32(unwind.Complete):                        200 + uint32(profilerOutcomeOUTCOME_COMPLETE),
		300 + uint32(unwind.PageMissing):                     300 + uint32(profilerOutcomeOUTCOME_PAGE_MISSING),
		400 + uint32(unwind.NotCollected):                    400 + uint32(profilerOutcomeOUTCOME_NOT_COLLECTED),
		500 + uint32(unwind.CFAReg):                          500 + uint32(profilerCfaKindCFA_REG),
		500 + uint32(unwind.CFASPIndexed):                    500 + uint32(profilerCfaKindCFA_SP_INDEXED),
		500 + uint32(unwind.CFAFrame):                        500 + uint32(profilerCfaKindCFA_FRAME),
		500 + uint32(unwind.CFASPFar):                        500 + uint32(profilerCfaKindCFA_SP_FAR),
		500 + uint32(unwind.CFASPDerefTwice):                 500 + uint32(profilerCfaKindCFA_SP_DEREF_TWICE),
		600 + uint32(unwind.CFASignal):                       600 + uint32(profilerCfaKindCFA_SIGNAL),
		700 + uint32(unwind.FPReg):                           700 + uint32(profilerFpRuleFP_REG),
		800 + uint32(unwind.RAReg):                           800 + uint32(profilerRaRuleRA_REG),
		900 + uint32(unsafe.Sizeof(profilerProcess{})):       900 + 32,
		1000 + uint32(unsafe.Sizeof(unwind.WideRule{})):      1000 + 16,
		1100 + uint32(unsafe.Sizeof(unwind.Row{})):           1100 + 8,
		1200 + uint32(len(profilerCounters{}.Outcomes)):      1200 + uint32(unwind.NumOutcomes),
		1300 + uint32(unwind.Task32Bit):                      1300 + uint32(profilerOutcomeOUTCOME_TASK_32BIT),
		1400 + uint32(unwind.UnreadableStack):                1400 + uint32(profilerOutcomeOUTCOME_UNREADABLE_STACK),
		1500 + uint32(profilerLimitsFRAME_WORDS):             1500 + 2,
		1600 + uint32(profilerLimitsMAPPING_WORDS):           1600 + tablestore.MappingWords,
		1800 + uint32(profilerRowPageStateROW_PAGE_RESIDENT): 1800 + tablestore.PageResident,
		1900 + uint32(profilerRowPageMarkROW_PAGE_ACCESSED):  1900 + tablestore.PageAccessed,
		uint32(profilerLimitsSLAB_WORDS):                     tablestore.SlabWords,
		2100 + uint32(language.MaxSteps):                     2100 + uint32(profilerLimitsMAX_STEPS),
		2200 + uint32(language.MaxBlocks):                    2200 + uint32(profilerLimitsMAX_BLOCKS),
		2300 + uint32(language.MaxBlockBytes):                2300 + 8*uint32(profilerLimitsBLOCK_WORDS),
		2500 + uint32(language.MaxWords):                     2500 + uint32(profilerLimitsMAX_LAYOUT_WORDS),
		2600 + uint32(language.MaxCookieWords):               2600 + uint32(profilerLimitsMAX_COOKIE_WORDS),
		2700 + uint32(language.MaxTexts):                     2700 + uint32(profilerLimitsMAX_TEXTS),
		2800 + uint32(language.MaxTextBytes):                 2800 + uint32(profilerLimitsMAX_TEXT_BYTES),
		3000 + uint32(language.Absolute):                     3000 + uint32(profilerPathOpPATH_ABSOLUTE),
		3100 + uint32(language.Index):                        3100 + uint32(profilerPathOpPATH_INDEX),
		3200 + uint32(language.ByTID):                        3200 + uint32(profilerThreadOwnerOWNER_TID),
		3300 + uint32(language.NumChainEnds):                 3300 + uint32(profilerChainEndCHAIN_ENDS),
		3400 + uint32(language.ChainTooLong):                 3400 + uint32(profilerChainEndCHAIN_TOO_LONG),
		4000 + uint32(chain.MaxFrames):                       4000 + uint32(profilerLimitsMAX_CHAIN_FRAMES),
		2000 + uint32(profilerLimitsMAX_SLABS):               2000 + tablestore.MaxSlabs,
		uint32(profilerLimitsWORD_MASK):                      tablestore.WordMask,
	} {
		if got != want {
			t.Errorf("Go has %d where bpf/abi/abi.h has %d", got, want)
		}
	}
}

func FuzzDecodeSample(f *testing.F) {
	f.Add(make([]byte, sampleHead))
	f.Add(make([]byte, sampleHead+8*3+16*2+64))
	part := make([]byte, sampleHead+32+16)
	var at profilerSample
	part[unsafe.Offsetof(at.Flags)] = byte(profilerSampleFlagsSAMPLE_PART)
	part[unsafe.Offsetof(at.StackBytes)], part[unsafe.Offsetof(at.StackPages)], part[sampleHead+9] = 32+16, 2, 8
	f.Add(part)
	f.Add(chainRecord())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newSampleReader(nil, nil)
		if err := r.decode(b); err != nil {
			return
		}
		if n := sampleHead + 8*len(r.sample.Kernel) + 16*len(r.sample.User) + r.sample.Stack.Len(); n > len(b) {
			t.Errorf("decoded %d bytes of %d", n, len(b))
		}
		stack := r.sample.Stack
		for page := range uint64(33) {
			for _, at := range []uint64{0, 24, 4093} {
				stack.ReadU64(stack.base + page*stackPage + at) // must not panic
			}
		}
	})
}

// chainRecord is a sample with a chain of two frames of two words each, and one code object with
// a cookie of one word and a text of five bytes.
func chainRecord() []byte {
	var at profilerSample
	b := make([]byte, sampleHead)
	b[unsafe.Offsetof(at.Interpreter)], b[unsafe.Offsetof(at.ChainEnd)] = 7, byte(language.ChainWhole)
	b[unsafe.Offsetof(at.RuntimeWords)], b[unsafe.Offsetof(at.Codes)] = 13, 1
	for _, word := range []uint64{
		2 | 3<<32, 0x10, 0x11, 0x12, 0x20, 0x21, 0x22, // frames
		0xc0de, 0xc00c1e, 5, 1 | 1<<8 | 1<<16, 0x77, 0x6f6c6c6568, // "hello"
	} {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// TestDecodeChain reads such a sample, and a copy of it.
func TestDecodeChain(t *testing.T) {
	r := newSampleReader(nil, nil)
	if err := r.decode(chainRecord()); err != nil {
		t.Fatal(err)
	}
	var kept Sample
	kept.CopyFrom(&r.sample)
	if err := r.decode(make([]byte, sampleHead)); err != nil {
		t.Fatal(err)
	}
	if r.sample.Chain.Interpreter != 0 || len(r.sample.Chain.Frames)+len(r.sample.Chain.Codes) != 0 {
		t.Errorf("a sample without a chain has %+v of the one before", r.sample.Chain)
	}
	c := kept.Chain
	if c.Interpreter != 7 || c.End != language.ChainWhole || len(c.Frames) != 2 || len(c.Codes) != 1 {
		t.Fatalf("chain %+v", c)
	}
	if f := c.Frames[1]; !slices.Equal(f.Words, []uint64{0x20, 0x21}) || f.Cookie != 0x22 {
		t.Errorf("frame %+v", f)
	}
	code := c.Codes[0]
	if code.Address != 0xc0de || code.Cookie != 0xc00c1e || !slices.Equal(code.Words, []uint64{0x77}) ||
		len(code.Text) != 1 || string(code.Text[0]) != "hello" {
		t.Errorf("code object %+v", code)
	}
}

// TestParts: parts of a stack join the sample before them on their CPU. One that
// is lost holds nothing up.
func TestParts(t *testing.T) {
	r := newSampleReader(nil, nil)
	var got []Sample
	join := func(cpu uint32, time uint64, part, continued bool) {
		stack := stackPart{bytes: make([]byte, stackPage), base: 0x1000 * (time + uint64(len(got)) + 1), pages: 1}
		r.sample = Sample{CPU: cpu, Time: time, Stack: Stack{stackPart: stack}}
		r.part, r.continued = part, continued
		r.joinParts(func(s *Sample) { got = append(got, *s) })
	}
	join(0, 1, false, true)
	join(1, 2, false, false)
	join(0, 1, true, true)
	join(0, 1, true, false)
	join(0, 3, false, true) // its part is lost
	join(0, 4, true, false) // its sample is lost
	join(0, 5, false, false)
	var order []uint64
	for _, s := range got {
		order = append(order, s.Time)
	}
	if !slices.Equal(order, []uint64{2, 1, 3, 5}) || len(got[1].Stack.more) != 2 || len(got[2].Stack.more) != 0 ||
		len(r.waiting) != 0 {
		t.Errorf("samples of times %d, %d and %d parts, waiting %v", order, len(got[1].Stack.more),
			len(got[2].Stack.more), r.waiting)
	}
}
