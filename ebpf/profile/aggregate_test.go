package profile

import (
	"reflect"
	"testing"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestKeysHoldStacks checks that decode restores a stack from its key, and that stacks that differ in any field have
// different keys.
func TestKeysHoldStacks(t *testing.T) {
	frame := kernel.Frame{Vaddr: 1 << 40, Exe: 7, Flags: kernel.ReturnAddress}
	inCode := kernel.Frame{Vaddr: 1 << 40, Exe: 7, Code: unwind.UnknownCode,
		Flags: kernel.ReturnAddress | kernel.FramePointer}
	stacks := []stack{
		{},
		{comm: "a", outcome: unwind.Complete, pid: 3, kernel: []uint64{1<<64 - 1, 5},
			user: []kernel.Frame{frame, inCode, frame}},
		{comm: "a", outcome: unwind.Complete, pid: 3, kernel: []uint64{1<<64 - 1, 5},
			user: []kernel.Frame{frame, frame, frame}},
		{comm: "a", outcome: unwind.Complete, kernel: []uint64{1<<64 - 1, 5}, user: []kernel.Frame{frame, frame, frame}},
		{comm: "b", outcome: unwind.NoRow, user: []kernel.Frame{inCode}},
		{comm: "b", outcome: unwind.NoRow, user: []kernel.Frame{{Vaddr: 1 << 40, Exe: 7, Code: 1 << 31}}},
		{comm: "b", outcome: unwind.NoRow, kernel: []uint64{1}},
		{comm: "b", labels: "c\x00", outcome: unwind.NoRow, kernel: []uint64{1}},
		{comm: "b", labels: "c\x001\x00", outcome: unwind.NoRow, kernel: []uint64{1}},
	}
	c := targetCounts{stacks: map[string]*weight{}}
	for i := range stacks {
		number := uint64(i) + 1
		c.stacks[string(stacks[i].appendKey(nil, []byte(stacks[i].labels)))] = &weight{value: number}
	}
	if len(c.stacks) != len(stacks) {
		t.Errorf("%d keys of %d stacks", len(c.stacks), len(stacks))
	}
	for s, w := range c.eachStack {
		want := stacks[w.value-1]
		if s.comm != want.comm || s.pid != want.pid || s.outcome != want.outcome ||
			s.labels != want.labels ||
			len(s.kernel)+len(want.kernel) > 0 && !reflect.DeepEqual(s.kernel, want.kernel) ||
			len(s.user)+len(want.user) > 0 && !reflect.DeepEqual(s.user, want.user) {
			t.Errorf("read %+v, want %+v", *s, want)
		}
	}
}
