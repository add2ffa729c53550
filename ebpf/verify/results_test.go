package verify

import (
	"testing"

	"github.com/headwater/headwater/ebpf/cfi"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestFinishes: frames that were found as the reference finds its own do not raise
// the agreement, but where they differ the stack counts as one that does.
func TestFinishes(t *testing.T) {
	r := newResults(Options{})
	for _, c := range []struct {
		finish kernel.Finish
		frames []kernel.Frame
	}{
		{kernel.InKernel, stack(1, 2, 9)},
		{kernel.ByRows, stack(1, 2, 3)},
		{kernel.ByCFI, stack(1, 2, 3)},
		{kernel.ByCFI, stack(1, 9, 3)},
	} {
		r.add(&walk{outcome: unwind.Complete, finish: c.finish, frames: c.frames}, truth{frames: stack(1, 2, 3), end: cfi.Outermost})
	}
	if r.frames != 6 || r.agreed != 5 || r.framesByCFI != 6 || r.agreedByCFI != 5 {
		t.Errorf("%d of %d frames agree, %d of %d by CFI, want 5 of 6 and 5 of 6", r.agreed, r.frames, r.agreedByCFI, r.framesByCFI)
	}
	if f := r.finishes; f[kernel.InKernel] != 1 || f[kernel.ByRows] != 1 || f[kernel.ByCFI] != 2 || r.whole != 2 {
		t.Errorf("stacks compared: %v, %d agree, want 1, 1, 2 and 2", f, r.whole)
	}
}
