package verify

import (
	"testing"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/verify/reference"
)

// TestResults checks the report for three stacks that agree, one that differs, one that ends early, one whose leaf has
// no CFI and one that was not copied.
func TestResults(t *testing.T) {
	r := newResults(Options{})
	whole := stacked(reference.Outermost, 1, 2, 3)
	for _, c := range []struct {
		finish  kernel.Finish
		outcome unwind.Outcome
		frames  []kernel.Frame
		stack   reference.Stack
	}{
		{kernel.InKernel, unwind.Complete, walked(1, 2, 3), whole},
		{kernel.ByCFI, unwind.Complete, walked(1, 2, 3), whole},
		{kernel.InKernel, unwind.Complete, walked(1, 2, 3), stacked(reference.NoCFI, 1, 2)},
		{kernel.ByRows, unwind.Complete, walked(1, 9, 3), whole},
		{kernel.InKernel, unwind.NoRow, walked(1, 2), whole},
		{kernel.InKernel, unwind.CompleteFP, walked(1, 2, 3), stacked(reference.NoCFI, 1)},
	} {
		w := &walk{outcome: c.outcome, finish: c.finish, frames: c.frames}
		r.taken(w)
		r.addWalk(w, c.stack, comparer(sameByNumber).stacks(w.frames, w.outcome, &c.stack))
	}
	copyless := &walk{outcome: unwind.Complete, frames: walked(1, 2, 3, 4)}
	r.taken(copyless)
	r.skipWalk(copyless, "no copy")
	got := r.report(0, func(unwind.ExeID) *process.Executable { return nil })
	for what, numbers := range map[string][2]uint64{
		"user stacks":          {got.UserStacks, 7},
		"whole":                {got.StacksWhole, 4},
		"in part":              {got.StacksInPart, 1},
		"not comparable":       {got.StacksNotComparable, 2},
		"no CFI at the leaf":   {got.NotComparable["at the leaf: no_cfi"], 1},
		"not copied":           {got.NotComparable["no copy"], 1},
		"in part, no CFI":      {got.InPart["no_cfi"], 1},
		"stacks that agree":    {got.StacksAgreed, 3},
		"whole, and agree":     {got.WholeAgreed, 2},
		"frames":               {got.Frames, 2 + 2 + 1 + 2 + 2},
		"frames that agree":    {got.FramesAgreed, 2 + 2 + 1 + 1 + 1},
		"frames missing":       {got.FramesMissing, 1},
		"frames not checkable": {got.NotCheckable, 1 + 2 + 3},
		"by CFI":               {got.ByCFI, 1},
	} {
		if numbers[0] != numbers[1] {
			t.Errorf("%s: %d, want %d", what, numbers[0], numbers[1])
		}
	}
	if want := 8. / 14; got.Coverage != want {
		t.Errorf("coverage %v, want %v", got.Coverage, want)
	}
	if want := 7. / 9; got.Agreement != want {
		t.Errorf("agreement %v, want %v", got.Agreement, want)
	}
	if len(got.Incomplete) != 1 || got.Incomplete[0].Stacks != 1 || got.Incomplete[0].Continued != 1 {
		t.Errorf("incomplete: %+v, want one with which the reference goes on", got.Incomplete)
	}
}
