package ehframe_test

import (
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit"
)

// FuzzSection reads sections of any content: every FDE, every row. Rows must be in order and inside
// their FDE.
func FuzzSection(f *testing.F) {
	frames := &ehtest.Frames{Addr: sectionAddr}
	cie := frames.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()})
	frames.FDE(cie, textStart, 64, ehtest.Asm{}.Op(ehtest.RememberState).Op(ehtest.AdvanceLoc|1).Op(ehtest.OffsetReg|6).
		Uleb(2).Op(ehtest.AdvanceLoc|1).Op(ehtest.RestoreState).Op(ehtest.DefCFAExpression).
		Block(ehtest.Asm{}.Op(0x77).Sleb(-8).Op(6)))
	f.Add([]byte(frames.Bytes), false)
	debug := &ehtest.Frames{Debug: true}
	debug.FDE(debug.CIE(ehtest.CIE{Program: initial()}), textStart, 64,
		ehtest.Asm{}.Op(ehtest.ValOffsetSF).Uleb(6).Sleb(-2))
	f.Add([]byte(debug.Bytes), true)

	f.Fuzz(func(t *testing.T, b []byte, debug bool) {
		defer testkit.Cheap(t, len(b))()
		s := section(b, debug)
		var p ehframe.Program
		ehframe.NewReader(s).FDEs(func(fde ehframe.FDE, err error) bool {
			if err != nil {
				return true
			}
			at := fde.Start
			p.Rows(&fde, func(r *ehframe.Row) bool {
				if r.Start != at || r.End <= r.Start || r.End > fde.End {
					t.Fatalf("row %#x-%#x after %#x in %#x-%#x", r.Start, r.End, at, fde.Start, fde.End)
				}
				at = r.End
				return true
			})
			return true
		})
		ehframe.Scan(s)
	})
}

// FuzzHeader searches in an .eh_frame_hdr of any content.
func FuzzHeader(f *testing.F) {
	frames := &ehtest.Frames{Addr: sectionAddr}
	frames.FDE(frames.CIE(ehtest.CIE{Augmentation: "zR", Program: initial()}), textStart, 64, nil)
	f.Add([]byte(frames.Header(0x480000)), uint64(textStart+1))
	f.Fuzz(func(t *testing.T, b []byte, pc uint64) {
		s := section(b, false)
		s.Addr = 0x480000
		h, err := ehframe.ParseHeader(s)
		if err != nil {
			return
		}
		if i, err := ehframe.Find(h, pc); err == nil && (i < -1 || i >= h.Len()) {
			t.Fatalf("entry %d of %d", i, h.Len())
		}
	})
}
