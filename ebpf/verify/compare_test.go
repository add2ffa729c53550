package verify

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// walked returns frames of executable 1 by their addresses; a negative address marks a frame found by the frame
// pointer.
func walked(addresses ...int64) []kernel.Frame {
	var frames []kernel.Frame
	for _, a := range addresses {
		f := kernel.Frame{Exe: 1, Vaddr: uint64(max(a, -a))}
		if a < 0 {
			f.Flags = kernel.FramePointer
		}
		frames = append(frames, f)
	}
	return frames
}

// fileOne is executable 1, and fileTwo a different file.
func testFiles() (one, two *reference.File) {
	return &reference.File{Path: "/one"}, &reference.File{Path: "/two"}
}

// sameByNumber treats executable 1 as the file with the path /one.
func sameByNumber(a kernel.Frame, b reference.Frame) bool {
	return b.File != nil && a.Exe == 1 && b.File.Path == "/one" && a.Vaddr == b.Vaddr
}

// stacked returns a stack of the reference in /one.
func stacked(end reference.End, vaddrs ...uint64) reference.Stack {
	one, _ := testFiles()
	s := reference.Stack{End: end}
	for _, v := range vaddrs {
		s.Frames = append(s.Frames, reference.Frame{File: one, Vaddr: v, PC: v + 1000})
	}
	return s
}

func TestCompareStacks(t *testing.T) {
	beyond := stacked(reference.NoMapping, 1, 2)
	beyond.Frames[1].File = nil
	_, two := testFiles()
	elsewhere := stacked(reference.Outermost, 1, 2)
	elsewhere.Frames[0].File = two
	made := stacked(reference.NoFile, 1, 2)
	made.Frames[1].File = nil
	stopped := append(walked(1), kernel.Frame{Vaddr: 1002}) // at an unknown address
	tests := []struct {
		name    string
		walk    []kernel.Frame
		outcome unwind.Outcome
		stack   reference.Stack
		want    comparison
	}{
		{"equal", walked(1, 2, 3), unwind.Complete, stacked(reference.Outermost, 1, 2, 3),
			comparison{at: -1, extent: Whole, compared: 2, agreed: 2}},
		{"how a frame was found does not count", walked(1, -2), unwind.CompleteFP, stacked(reference.Outermost, 1, 2),
			comparison{at: -1, extent: Whole, compared: 1, agreed: 1}},
		{"nothing but the leaf, and that is right", walked(1), unwind.Complete, stacked(reference.Outermost, 1),
			comparison{at: -1, extent: Whole}},
		{"nothing but the leaf, and nobody knows", walked(1), unwind.NoRow, stacked(reference.NoCFI, 1),
			comparison{at: -1, extent: NotComparable}},
		{"no CFI at the leaf", walked(1, 2, 3), unwind.CompleteFP, stacked(reference.NoCFI, 1),
			comparison{at: -1, extent: NotComparable, uncheckable: 2}},
		{"frame pointers go on where there is no CFI", walked(1, 2, -3, -4), unwind.CompleteFP,
			stacked(reference.NoCFI, 1, 2), comparison{at: -1, extent: InPart, compared: 1, agreed: 1, uncheckable: 2}},
		{"the copy ends", walked(1, 2, 3), unwind.Complete, stacked(reference.CopyEnds, 1, 2),
			comparison{at: -1, extent: InPart, compared: 1, agreed: 1, uncheckable: 1}},
		{"the reference knows less of the process", walked(1, 2, 3), unwind.Complete, beyond,
			comparison{at: -1, extent: NotComparable, uncheckable: 2}},
		{"made code is no file", walked(1, 2), unwind.Complete, made,
			comparison{difference: OtherFrame, extent: Whole, compared: 1}},
		{"ends early and says so", walked(1), unwind.NoRow, stacked(reference.Outermost, 1, 2, 3),
			comparison{difference: Missing, extent: Whole, compared: 2, missing: 2}},
		{"ends early before a reference that ends, too", walked(1), unwind.NoRow, stacked(reference.NoCFI, 1, 2),
			comparison{difference: Missing, extent: InPart, compared: 1, missing: 1}},
		{"at the root, and does not know it", walked(1, 2), unwind.PageMissing, stacked(reference.Outermost, 1, 2),
			comparison{difference: Missing, extent: Whole, at: 1, compared: 1, agreed: 1}},
		{"in a file that it does not know", stopped, unwind.NoMapping, stacked(reference.Outermost, 1, 2, 3),
			comparison{difference: Missing, extent: Whole, at: 1, compared: 2, agreed: 1, missing: 1}},
		{"complete, in a file that it does not know", stopped, unwind.Complete, stacked(reference.Outermost, 1, 2),
			comparison{difference: OtherFrame, extent: Whole, compared: 1}},
		{"as many frames as there may be", walked(1, 2), unwind.DepthLimit, stacked(reference.Outermost, 1, 2, 3),
			comparison{at: -1, extent: Whole, compared: 1, agreed: 1}},
		{"called complete, and is not", walked(1), unwind.Complete, stacked(reference.Outermost, 1, 2, 3),
			comparison{difference: EndedEarly, extent: Whole, compared: 2}},
		{"beyond the root", walked(1, 2, 3), unwind.Complete, stacked(reference.GoRoot, 1, 2),
			comparison{difference: PastRoot, extent: Whole, at: 1, compared: 2, agreed: 1}},
		{"a frame left out", walked(1, 3, 4), unwind.Complete, stacked(reference.Outermost, 1, 2, 3, 4),
			comparison{difference: OtherFrame, extent: Whole, compared: 2}},
		{"the leaf's file is another one", walked(1, 2), unwind.Complete, elsewhere,
			comparison{difference: OtherFrame, extent: Whole, compared: 2, agreed: 1}},
		{"no frames", nil, unwind.ProcessUnknown, stacked(reference.NoCFI, 1), comparison{at: -1, extent: NotComparable}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := comparer(sameByNumber).stacks(test.walk, test.outcome, &test.stack)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(comparison{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
