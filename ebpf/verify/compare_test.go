package verify

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/cfi"
	"github.com/headwater/headwater/ebpf/kernel"
)

// stack makes frames of executable 1 by their addresses; a negative one was found
// by the frame pointer.
func stack(addresses ...int64) []kernel.Frame {
	var frames []kernel.Frame
	for _, a := range addresses {
		f := kernel.Frame{Exe: 1, Address: uint64(max(a, -a))}
		if a < 0 {
			f.Flags = kernel.FramePointer
		}
		frames = append(frames, f)
	}
	return frames
}

func TestCompareStacks(t *testing.T) {
	tests := []struct {
		name      string
		walk      []kernel.Frame
		complete  bool
		reference []kernel.Frame
		end       cfi.End
		want      comparison
	}{
		{"equal", stack(1, 2, 3), true, stack(1, 2, 3), cfi.Outermost, comparison{at: -1, compared: 3, agreed: 3}},
		{"how a frame was found does not count", stack(1, -2), true, stack(1, 2), cfi.Outermost, comparison{at: -1, compared: 2, agreed: 2}},
		{"frame pointers go on where there is no CFI", stack(1, 2, -3, -4), true, stack(1, 2), cfi.NoCFI, comparison{at: -1, compared: 2, agreed: 2, uncheckable: 2}},
		{"the copy ends", stack(1, 2, 3), true, stack(1), cfi.Unreadable, comparison{at: -1, compared: 1, agreed: 1, uncheckable: 2}},
		{"known to be incomplete", stack(1), false, stack(1, 2, 3), cfi.Outermost, comparison{at: -1, compared: 1, agreed: 1, missing: 2}},
		{"called complete, and is not", stack(1), true, stack(1, 2, 3), cfi.Outermost, comparison{difference: EndedEarly, at: 0, compared: 3, agreed: 1}},
		{"behind the root", stack(1, 2, 3), true, stack(1, 2), cfi.ZeroReturn, comparison{difference: PastRoot, at: 1, compared: 3, agreed: 2}},
		{"a frame left out", stack(1, 3, 4), true, stack(1, 2, 3, 4), cfi.Outermost, comparison{difference: OtherFrame, at: 0, compared: 3, agreed: 1}},
		{"another leaf", stack(9), false, stack(1), cfi.NoCFI, comparison{difference: OtherFrame, at: 0, compared: 1}},
		{"no frames", nil, false, stack(1), cfi.Outermost, comparison{at: -1, missing: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := compareStacks(test.walk, test.complete, &truth{frames: test.reference, end: test.end})
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(comparison{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOtherFile: the same address in another file is another frame.
func TestOtherFile(t *testing.T) {
	a, b := stack(1), stack(1)
	b[0].Exe = 2
	if c := compareStacks(a, true, &truth{frames: b, end: cfi.Outermost}); c.difference != OtherFrame {
		t.Errorf("%+v, want %s", c, OtherFrame)
	}
}
