package heap

import (
	"encoding/binary"
	"sync"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/sampler"
	"github.com/headwater/headwater/flame/kind"
)

// inUse is the sampled memory in use. The zero value has none.
type inUse struct {
	processes map[uint32]map[uint64]*block // by PID and address
	stacks    map[string]*stack            // by key: a leak has many blocks, but few stacks
	key       []byte                       // scratch of stackOf

	blocks, bytes uint64
}

// block is a sampled block.
type block struct {
	time   uint64
	weight uint64 // bytes that it stands for
	stack  *stack
}

// stack is the stack that allocated blocks.
type stack struct {
	sample *sampler.Sample
	key    string
	blocks int
}

func newInUse() inUse {
	return inUse{processes: map[uint32]map[uint64]*block{}, stacks: map[string]*stack{}}
}

// addBlock adds a block. A block that was at its address before has been freed.
func (u *inUse) addBlock(b kernel.HeapBlock, s *sampler.Sample, weight uint64) {
	of := u.processes[b.PID]
	if of == nil {
		of = map[uint64]*block{}
		u.processes[b.PID] = of
	}
	if old := of[b.Address]; old != nil {
		if old.time > b.Time {
			return
		}
		u.dropBlock(b.PID, b.Address, old)
		u.processes[b.PID] = of // it may have been the last one
	}
	of[b.Address] = &block{b.Time, weight, u.stackOf(s)}
	u.blocks, u.bytes = u.blocks+1, u.bytes+weight
}

// stackOf returns the stack that equals the sample's, and counts a block for it. The first such sample then belongs to
// u.
func (u *inUse) stackOf(s *sampler.Sample) *stack {
	k := binary.NativeEndian.AppendUint32(u.key[:0], s.PID)
	k = binary.NativeEndian.AppendUint32(k, s.TID)
	k = binary.NativeEndian.AppendUint32(k, s.CPU)
	k = append(k, byte(s.Outcome))
	k = append(k, s.Comm...)
	for _, f := range s.Frames() {
		k = binary.NativeEndian.AppendUint64(k, f.Vaddr)
		k = binary.NativeEndian.AppendUint32(k, uint32(f.Exe))
		k = binary.NativeEndian.AppendUint32(k, uint32(f.Code))
		k = binary.NativeEndian.AppendUint32(k, uint32(f.Flags))
	}
	u.key = k
	known := u.stacks[string(k)]
	if known == nil {
		known = &stack{sample: s, key: string(k)}
		u.stacks[known.key] = known
	}
	known.blocks++
	return known
}

// dropBlock forgets a block.
func (u *inUse) dropBlock(pid uint32, address uint64, b *block) {
	u.blocks, u.bytes = u.blocks-1, u.bytes-b.weight
	if b.stack.blocks--; b.stack.blocks == 0 {
		delete(u.stacks, b.stack.key)
	}
	of := u.processes[pid]
	if delete(of, address); len(of) == 0 {
		delete(u.processes, pid)
	}
}

// dropBefore forgets the blocks that a process allocated before a time.
func (u *inUse) dropBefore(pid uint32, time uint64) {
	for address, b := range u.processes[pid] {
		if b.time < time {
			u.dropBlock(pid, address, b)
		}
	}
}

// dropEnded forgets the processes that have ended.
func (u *inUse) dropEnded(lives func(pid uint32) bool) {
	for pid := range u.processes {
		if !lives(pid) {
			u.dropBefore(pid, ^uint64(0))
		}
	}
}

// keepUsed forgets the blocks from before a time that are not used.
func (u *inUse) keepUsed(before uint64, used map[kernel.HeapBlock]bool) {
	for pid, of := range u.processes {
		for address, b := range of {
			if b.time < before && !used[kernel.HeapBlock{PID: pid, Address: address, Time: b.time}] {
				u.dropBlock(pid, address, b)
			}
		}
	}
}

func (u *inUse) hasBlock(b kernel.HeapBlock) bool {
	known := u.processes[b.PID][b.Address]
	return known != nil && known.time == b.Time
}

// eachSample hands a sample of each block to use, as if it were taken at the given time. It is valid until the next
// one.
func (u *inUse) eachSample(time uint64, use func(*sampler.Sample)) {
	for _, of := range u.processes {
		for _, b := range of {
			shown := b.stack.sample.Copy()
			shown.Time, shown.Kind, shown.Value = time, kind.Heap, b.weight
			use(shown)
		}
	}
}

// news holds the times when processes last started a program or ended. It is safe for concurrent use.
type news struct {
	mu    sync.Mutex
	times map[uint32]uint64 // by PID; nil if not needed
}

func (n *news) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.times = map[uint32]uint64{}
}

func (n *news) stopNews() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.times = nil
}

func (n *news) addProcess(pid uint32, time uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.times != nil {
		n.times[pid] = max(n.times[pid], time)
	}
}

// takeProcesses hands all times to use, and removes them.
func (n *news) takeProcesses(use func(pid uint32, time uint64)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pid, time := range n.times {
		use(pid, time)
	}
	clear(n.times)
}
