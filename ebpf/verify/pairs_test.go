package verify

import (
	"testing"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

func TestPairs(t *testing.T) {
	const us = 1000
	p := newPairs()
	first := &walk{time: 100 * us, cpu: 1, tid: 7, outcome: unwind.Complete}
	second := &walk{time: 600 * us, cpu: 1, tid: 7, outcome: unwind.Complete}
	skipped := &walk{time: 700 * us, cpu: 1, tid: 8, outcome: unwind.KernelThread} // without a user stack to compare
	for _, w := range []*walk{first, second, skipped} {
		if c := p.ofWalk(w); c != nil {
			t.Fatalf("walk of %d paired with %+v", w.time, c)
		}
	}
	if w := p.ofCopy(&kernel.PerfSnapshot{Time: 598 * us, CPU: 1, TID: 7}); w != second {
		t.Errorf("copy paired with %+v, want the second walk", w)
	}
	for _, other := range []kernel.PerfSnapshot{
		{Time: 98 * us, CPU: 0, TID: 7},  // another CPU
		{Time: 98 * us, CPU: 1, TID: 8},  // another thread
		{Time: 300 * us, CPU: 1, TID: 7}, // another instant
	} {
		if w := p.ofCopy(&other); w != nil {
			t.Errorf("copy %+v paired with %+v", other, w)
		}
	}
	// A copy that is read before its walk is kept with its stack.
	bytes := []byte{1, 2, 3}
	p.ofCopy(&kernel.PerfSnapshot{Time: 900 * us, CPU: 1, TID: 7, Stack: bytes})
	bytes[0] = 9
	if c := p.ofWalk(&walk{time: 902 * us, cpu: 1, tid: 7}); c == nil || c.Stack[0] != 1 {
		t.Errorf("walk paired with %+v", c)
	}
	var alone []*walk
	p.expire(1000*us, func(w *walk) { alone = append(alone, w) })
	if len(alone) != 1 || alone[0] != first {
		t.Errorf("walks without a copy: %+v, want the first one", alone)
	}
	if len(p.walks[1])+len(p.copies[1])+len(p.copies[0]) != 0 {
		t.Errorf("left: %+v", p)
	}
}
