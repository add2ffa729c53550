package kernel

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/headwater/headwater/ebpf/unwind"
)

// The numbers of ebpf/unwind and of bpf/abi.h are the same.
func TestSharedNumbers(t *testing.T) {
	for got, want := range map[uint32]uint32{
		uint32(unwind.MinPageShift):                     uint32(profilerLimitsMIN_ROW_PAGE_SHIFT),
		1700 + uint32(unwind.MaxPageShift):              1700 + uint32(profilerLimitsMAX_ROW_PAGE_SHIFT),
		100 + uint32(unwind.NumOutcomes):                100 + uint32(profilerOutcomeOUTCOMES),
		200 + uint32(unwind.Complete):                   200 + uint32(profilerOutcomeOUTCOME_COMPLETE),
		300 + uint32(unwind.PageMissing):                300 + uint32(profilerOutcomeOUTCOME_PAGE_MISSING),
		400 + uint32(unwind.NotCollected):               400 + uint32(profilerOutcomeOUTCOME_NOT_COLLECTED),
		500 + uint32(unwind.CFAReg):                     500 + uint32(profilerCfaKindCFA_REG),
		500 + uint32(unwind.CFASPIndexed):               500 + uint32(profilerCfaKindCFA_SP_INDEXED),
		500 + uint32(unwind.CFAFrame):                   500 + uint32(profilerCfaKindCFA_FRAME),
		500 + uint32(unwind.CFASPFar):                   500 + uint32(profilerCfaKindCFA_SP_FAR),
		600 + uint32(unwind.CFASignal):                  600 + uint32(profilerCfaKindCFA_SIGNAL),
		700 + uint32(unwind.FPReg):                      700 + uint32(profilerFpRuleFP_REG),
		800 + uint32(unwind.RAReg):                      800 + uint32(profilerRaRuleRA_REG),
		900 + uint32(unsafe.Sizeof(profilerProcess{})):  900 + 24,
		1000 + uint32(unsafe.Sizeof(unwind.WideRule{})): 1000 + 16,
		1100 + uint32(unsafe.Sizeof(unwind.Row{})):      1100 + 8,
		1200 + uint32(len(profilerCounters{}.Outcomes)): 1200 + uint32(unwind.NumOutcomes),
		1300 + uint32(unwind.Task32Bit):                 1300 + uint32(profilerOutcomeOUTCOME_TASK_32BIT),
		1400 + uint32(unwind.UnreadableStack):           1400 + uint32(profilerOutcomeOUTCOME_UNREADABLE_STACK),
		1500 + uint32(profilerLimitsFRAME_WORDS):        1500 + 2,
		1600 + uint32(profilerLimitsMAPPING_WORDS):      1600 + 4,
	} {
		if got != want {
			t.Errorf("Go has %d where bpf/abi.h has %d", got, want)
		}
	}
}

func FuzzDecodeSample(f *testing.F) {
	f.Add(make([]byte, 88))
	f.Add(make([]byte, 88+8*3+16*2+64))
	part := make([]byte, 88+32+16)
	var at profilerSample
	part[unsafe.Offsetof(at.Flags)] = byte(profilerSampleFlagsSAMPLE_PART)
	part[unsafe.Offsetof(at.StackBytes)], part[unsafe.Offsetof(at.StackPages)], part[88+9] = 32+16, 2, 8
	f.Add(part)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newSampleReader(nil, nil)
		if err := r.decode(b); err != nil {
			return
		}
		if n := 88 + 8*len(r.sample.Kernel) + 16*len(r.sample.User) + r.sample.Stack.Len(); n > len(b) {
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

// TestParts: parts of a stack join the sample before them on their CPU. One that
// is lost holds nothing up.
func TestParts(t *testing.T) {
	r := newSampleReader(nil, nil)
	var got []Sample
	join := func(cpu uint32, time uint64, part, continued bool) {
		r.sample = Sample{CPU: cpu, Time: time, Stack: Stack{stackPart: stackPart{bytes: make([]byte, stackPage), base: 0x1000 * (time + uint64(len(got)) + 1), pages: 1}}}
		r.part, r.continued = part, continued
		r.join(func(s *Sample) { got = append(got, *s) })
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
	if !slices.Equal(order, []uint64{2, 1, 3, 5}) || len(got[1].Stack.more) != 2 || len(got[2].Stack.more) != 0 || len(r.waiting) != 0 {
		t.Errorf("samples of times %d, %d and %d parts, waiting %v", order, len(got[1].Stack.more), len(got[2].Stack.more), r.waiting)
	}
}
