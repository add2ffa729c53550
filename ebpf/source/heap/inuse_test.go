package heap

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/flame/kind"
)

// sampleAt is a sample of a stack of one frame.
func sampleAt(pid uint32, vaddr uint64) *sampler.Sample {
	return &sampler.Sample{Sample: &kernel.Sample{PID: pid, User: []kernel.Frame{{Vaddr: vaddr, Exe: 1}}}}
}

// bytesOf adds up the memory in use by process.
func bytesOf(u *inUse) map[uint32]uint64 {
	sum := map[uint32]uint64{}
	u.eachSample(99, func(s *sampler.Sample) {
		if s.Kind == kind.Heap && s.Time == 99 {
			sum[s.PID] += s.Value
		}
	})
	return sum
}

// TestInUse: blocks that are freed, replaced at their address, or of ended processes are gone, with their stacks.
func TestInUse(t *testing.T) {
	u := newInUse()
	add := func(pid uint32, address, time, weight, vaddr uint64) {
		u.addBlock(kernel.HeapBlock{PID: pid, Address: address, Time: time}, sampleAt(pid, vaddr), weight)
	}
	add(1, 0x10, 5, 100, 7)
	add(1, 0x20, 6, 200, 7)
	add(2, 0x10, 7, 300, 7)
	require.Equal(t, map[uint32]uint64{1: 300, 2: 300}, bytesOf(&u))
	require.Len(t, u.stacks, 2, "equal stacks of a process are one")

	add(1, 0x10, 8, 400, 8) // freed in the meantime
	add(1, 0x10, 4, 999, 9) // read late
	require.Equal(t, map[uint32]uint64{1: 600, 2: 300}, bytesOf(&u))
	require.EqualValues(t, 3, u.blocks)
	require.EqualValues(t, 900, u.bytes)
	require.Len(t, u.stacks, 3)

	add(3, 0x30, 20, 50, 1) // comes while the kernel's blocks are read
	u.keepUsed(15, map[kernel.HeapBlock]bool{
		{PID: 1, Address: 0x10, Time: 8}: true, {PID: 1, Address: 0x20, Time: 1}: true,
	})
	require.Equal(t, map[uint32]uint64{1: 400, 3: 50}, bytesOf(&u))
	require.True(t, u.hasBlock(kernel.HeapBlock{PID: 1, Address: 0x10, Time: 8}))
	require.False(t, u.hasBlock(kernel.HeapBlock{PID: 1, Address: 0x10, Time: 9}))

	u.dropBefore(1, 8)
	require.Equal(t, map[uint32]uint64{1: 400, 3: 50}, bytesOf(&u))
	u.dropEnded(func(pid uint32) bool { return pid == 3 })
	require.Equal(t, map[uint32]uint64{3: 50}, bytesOf(&u))
	u.dropBefore(3, 21)
	require.Empty(t, bytesOf(&u))
	require.Zero(t, u.blocks+u.bytes+uint64(len(u.stacks)+len(u.processes)))
}
