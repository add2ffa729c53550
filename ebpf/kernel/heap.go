package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// HeapCall is the kind of an allocator function: its arguments, and whether it allocates a block, frees one, or both.
type HeapCall uint8

// The calls, with their arguments.
const (
	HeapMalloc         HeapCall = iota // (size), and calls no other function of its allocator
	HeapNew                            // (size, ...)
	HeapAligned                        // (alignment or heap, size, ...)
	HeapPosixMemalign                  // (where to write the block, alignment, size)
	HeapCalloc                         // (count, size, ...)
	HeapRealloc                        // (block, size, ...)
	HeapReallocArray                   // (block, count, size, ...)
	HeapFree                           // (block, ...)
	HeapOfCalloc                       // (heap, count, size, ...)
	HeapOfRealloc                      // (heap, block, size, ...)
	HeapOfReallocArray                 // (heap, block, count, size, ...)
)

// HeapFunction is a function of an allocator in a file.
type HeapFunction struct {
	Name   string
	Call   HeapCall
	Offset uint64 // in the file, of its first instruction
	Skip   uint64 // bytes of code before the probe, which change no register except flags
	// Stepped says that the CPU single-steps the probed instruction, because the kernel does not emulate it.
	Stepped bool
	// Nested says that a HeapMalloc may call other probed functions, whose blocks then count as its own.
	Nested bool
	// Returns are the instructions in the file by which the function, or one that it jumps to, returns to its caller.
	Returns []uint64
	// Arguments are the instructions in the file by which it jumps to a function that returns its first argument:
	// memset.
	Arguments []uint64
}

// HeapBlock identifies a sampled block of memory among the blocks of all processes.
type HeapBlock struct {
	PID     uint32
	Address uint64
	Time    uint64 // when it was allocated, CLOCK_MONOTONIC, ns: with PID and Address its identity
}

// HeapSample is the allocation of a sampled block. It is valid until the next one. Its PC is the address to which the
// allocator has returned.
type HeapSample struct {
	ProbeHit
	HeapBlock
	Weight uint64 // bytes that it stands for
}

// HeapMissed counts the blocks and calls that could not be sampled.
type HeapMissed struct {
	Full uint64 // blocks, because the table of blocks in use was full
	Lost uint64 // blocks, because the buffer had no room
	Busy uint64 // calls, because too many threads were in an allocator
}

// Heap samples the memory that programs allocate, and tracks which sampled blocks they have freed. Only one goroutine
// may use it.
type Heap struct {
	objects heapObjects
	reader  *ringbuf.Reader
	many    bool // probes are attached many at a time
	walks   *walks
	record  ringbuf.Record
	keys    []heapHeapKey // scratch of InUse
	blocks  []heapHeapBlock
	pids    []uint32 // scratch of Traps
	traps   []heapTrapCounts
}

// OpenHeap loads the programs. A block of n bytes is sampled with the probability n / period, and always if n is period
// or more. Close the Heap after use.
func (p *Profiler) OpenHeap(period uint32) (*Heap, error) {
	const batch = 4096
	h := &Heap{
		keys: make([]heapHeapKey, batch), blocks: make([]heapHeapBlock, batch),
		pids: make([]uint32, batch), traps: make([]heapTrapCounts, batch),
	}
	if err := h.openObjects(p, period); err != nil {
		return nil, errors.Join(fmt.Errorf("sample memory in use: %w", err), h.Close())
	}
	return h, nil
}

func (h *Heap) openObjects(p *Profiler, period uint32) error {
	spec, err := loadHeap()
	if err != nil {
		return err
	}
	if err := spec.Variables[heapVarHeapPeriod].Set(period); err != nil {
		return err
	}
	if h.many, err = attachesMany(); err != nil {
		return err
	}
	if h.many {
		for name, program := range spec.Programs {
			if strings.HasPrefix(name, "heap_") {
				program.AttachType = ebpf.AttachTraceUprobeMulti
			}
		}
	}
	if err := p.loadWalking(spec, &h.objects); err != nil {
		return err
	}
	if h.walks, err = openWalks(h.objects.SampleRings); err != nil {
		return err
	}
	h.reader, err = ringbuf.NewReader(h.objects.HeapSamples)
	return err
}

// program returns the program that runs at the entry of a function.
func (h *Heap) program(f *HeapFunction) *ebpf.Program {
	if f.Call == HeapMalloc && f.Nested {
		return h.objects.HeapNew
	}
	return []*ebpf.Program{
		HeapMalloc: h.objects.HeapMalloc, HeapNew: h.objects.HeapNew, HeapAligned: h.objects.HeapAligned,
		HeapPosixMemalign: h.objects.HeapPosixMemalign, HeapCalloc: h.objects.HeapCalloc,
		HeapRealloc: h.objects.HeapRealloc, HeapReallocArray: h.objects.HeapReallocarray,
		HeapFree: h.objects.HeapFree, HeapOfCalloc: h.objects.HeapOfCalloc, HeapOfRealloc: h.objects.HeapOfRealloc,
		HeapOfReallocArray: h.objects.HeapOfReallocarray,
	}[f.Call]
}

// HeapProbes are the probes of a file.
type HeapProbes struct{ links []link.Link }

// Close removes the probes.
func (p *HeapProbes) Close() error { return CloseHeapProbes(p) }

// closedAtOnce is how many links are closed at a time.
const closedAtOnce = 16

// CloseHeapProbes removes the probes of several files. For each link the kernel waits until no task is in its probes,
// which takes about 0.1 s, so it closes several at a time.
func CloseHeapProbes(probes ...*HeapProbes) error {
	var links []link.Link
	for _, p := range probes {
		links = append(links, p.links...)
		p.links = nil
	}
	errs := make([]error, len(links))
	room := make(chan struct{}, closedAtOnce)
	var closing sync.WaitGroup
	for i, l := range links {
		room <- struct{}{}
		closing.Go(func() {
			errs[i] = l.Close()
			<-room
		})
	}
	closing.Wait()
	return errors.Join(errs...)
}

// probesOneProcess is the first kernel version whose multi-uprobe links can be limited to the threads of one process:
// 6.10, encoded as KERNEL_VERSION.
const probesOneProcess = 6<<16 | 10<<8

// attachesMany reports whether the kernel can attach many uprobes at a time.
func attachesMany() (bool, error) {
	version, err := features.LinuxVersionCode()
	if err != nil || version < probesOneProcess {
		return false, err
	}
	err = features.HaveBPFLinkUprobeMulti()
	if errors.Is(err, ebpf.ErrNotSupported) {
		return false, nil
	}
	return err == nil, err
}

// Attach probes the functions of a file in one process, or, with the PID 0, in all processes that map the file now or
// later. If it fails, it leaves no probes.
func (h *Heap) Attach(path string, functions []HeapFunction, pid uint32) (*HeapProbes, error) {
	file, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	begins, ends := map[*ebpf.Program][]heapPlace{}, map[*ebpf.Program][]heapPlace{}
	for _, f := range functions {
		program := h.program(&f)
		begins[program] = append(begins[program], heapPlace{f.Offset + f.Skip, f.Stepped})
		for _, offset := range f.Returns {
			ends[h.objects.HeapReturn] = append(ends[h.objects.HeapReturn], heapPlace{offset, true})
		}
		for _, offset := range f.Arguments {
			ends[h.objects.HeapReturnArgument] = append(ends[h.objects.HeapReturnArgument], heapPlace{offset, true})
		}
	}
	probes := &HeapProbes{}
	for _, where := range []map[*ebpf.Program][]heapPlace{ends, begins} { // first the ends, so that none is missed
		for program, places := range where {
			slices.SortFunc(places, func(a, b heapPlace) int { return cmp.Compare(a.offset, b.offset) })
			if err := h.attach(probes, file, program, slices.Compact(places), pid); err != nil {
				return nil, errors.Join(fmt.Errorf("attach uprobes: %w", err), probes.Close())
			}
		}
	}
	return probes, nil
}

// heapPlace is a probed instruction of a file.
type heapPlace struct {
	offset  uint64
	stepped bool
}

// attach attaches a program to instructions of a file.
func (h *Heap) attach(
	probes *HeapProbes, file *link.Executable, program *ebpf.Program, places []heapPlace, pid uint32,
) error {
	if h.many {
		o := &link.UprobeMultiOptions{PID: pid}
		for _, p := range places {
			cookie := uint64(0)
			if p.stepped {
				cookie = 1
			}
			o.Addresses, o.Cookies = append(o.Addresses, p.offset), append(o.Cookies, cookie)
		}
		l, err := file.UprobeMulti(nil, program, o)
		if err == nil {
			probes.links = append(probes.links, l)
		}
		return err
	}
	for _, p := range places {
		l, err := file.Uprobe("", program, &link.UprobeOptions{Address: p.offset, PID: int(pid)})
		if err != nil {
			return fmt.Errorf("at %#x: %w", p.offset, err)
		}
		probes.links = append(probes.links, l)
	}
	return nil
}

// Read hands the available samples to use, in order of time; samples of the same instant have any order.
func (h *Heap) Read(use func(*HeapSample)) error {
	return h.walks.reading(func() error { return h.readSamples(use) })
}

func (h *Heap) readSamples(use func(*HeapSample)) error {
	var sample HeapSample
	h.reader.SetDeadline(time.Now()) // do not wait for more
	for {
		err := h.reader.ReadInto(&h.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read samples of memory in use: %w", err)
		}
		if err := sample.decode(h.record.RawSample); err != nil {
			return err
		}
		if sample.Walk, err = h.walks.walkAt(&sample.ProbeHit); err != nil {
			return err
		}
		use(&sample)
	}
}

// decode reads a struct heap_sample.
func (s *HeapSample) decode(b []byte) error {
	var r *heapHeapSample
	if uintptr(len(b)) < unsafe.Sizeof(*r) {
		return fmt.Errorf("read samples of memory in use: a record has %d bytes, want %d", len(b), unsafe.Sizeof(*r))
	}
	r = (*heapHeapSample)(unsafe.Pointer(&b[0]))
	pages := min(r.StackPages, uint32(heapHeapLimitsHEAP_STACK_PAGES))
	stack := r.Stack[:pages*uint32(stackPage)]
	below := min(r.Regs.Sp%stackPage, uint64(len(stack)))
	s.HeapBlock, s.Weight = HeapBlock{r.Key.Pid, r.Key.Address, r.Block.Time}, r.Block.Weight
	s.ProbeHit = ProbeHit{Hits: 1, Return: true, Leaves: true, PerfSnapshot: PerfSnapshot{
		Time: r.Block.Time, CPU: r.Cpu, PID: r.Key.Pid, TID: r.Tid, InUser: true, PC: r.Regs.Pc,
		Stack: stack[below:], Full: pages == uint32(heapHeapLimitsHEAP_STACK_PAGES),
	}}
	s.setRegs(r.Regs.General, r.Regs.Sp, r.Regs.Fp, r.Regs.Lr)
	return nil
}

func (k *HeapBlock) blockKey() heapHeapKey { return heapHeapKey{Address: k.Address, Pid: k.PID} }

// Uses reports whether a block is still in use.
func (h *Heap) Uses(b HeapBlock) bool {
	var block heapHeapBlock
	key := b.blockKey()
	return h.objects.HeapBlocks.Lookup(&key, &block) == nil && block.Time == b.Time
}

// InUse hands all blocks in use to use, which must not call h.
func (h *Heap) InUse(use func(HeapBlock)) error {
	var cursor ebpf.MapBatchCursor
	for {
		n, err := h.objects.HeapBlocks.BatchLookup(&cursor, h.keys, h.blocks, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read which memory is in use: %w", err)
		}
		for i := range n {
			use(HeapBlock{h.keys[i].Pid, h.keys[i].Address, h.blocks[i].Time})
		}
		if err != nil {
			return nil
		}
	}
}

// Forget stops tracking a block, to make room for new ones.
func (h *Heap) Forget(b HeapBlock) error {
	key := b.blockKey()
	if err := h.objects.HeapBlocks.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget memory in use: %w", err)
	}
	return nil
}

// HeapTraps counts the traps of a process, which are the cost of its allocator calls.
type HeapTraps struct {
	Emulated uint64 // at instructions that the kernel emulates
	Stepped  uint64 // at instructions that the CPU single-steps, which takes a few times as long
}

// Traps hands the traps of each process to use, counted since the process was first seen, or was seen again after a
// while.
func (h *Heap) Traps(use func(pid uint32, t HeapTraps)) error {
	var cursor ebpf.MapBatchCursor
	for {
		n, err := h.objects.HeapTraps.BatchLookup(&cursor, h.pids, h.traps, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read traps at allocators: %w", err)
		}
		for i, t := range h.traps[:n] {
			use(h.pids[i], HeapTraps{t.Emulated, t.Stepped})
		}
		if err != nil {
			return nil
		}
	}
}

// Ignore sets whether the calls of a process are ignored.
func (h *Heap) Ignore(pid uint32, ignore bool) error {
	if ignore {
		return h.objects.HeapIgnored.Put(pid, uint8(1))
	}
	if err := h.objects.HeapIgnored.Delete(pid); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil // newer entries may have evicted it
}

// Missed returns how many blocks and calls could not be sampled since OpenHeap.
func (h *Heap) Missed() (HeapMissed, error) {
	var c heapHeapCounters
	if err := h.objects.HeapCount.Get(&c); err != nil {
		return HeapMissed{}, fmt.Errorf("read counters of memory in use: %w", err)
	}
	return HeapMissed{Full: c.Full, Lost: c.Lost, Busy: c.Busy}, nil
}

// Close unloads the programs. Close the HeapProbes first.
func (h *Heap) Close() error {
	var err error
	if h.reader != nil {
		err = h.reader.Close()
	}
	if h.walks != nil {
		err = errors.Join(err, h.walks.close())
	}
	return errors.Join(err, h.objects.Close())
}
