package jvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/language"
)

// VM is a HotSpot VM that runs in a process. One goroutine may use it at a time.
type VM struct {
	layout *Layout
	bias   uint64 // of libjvm
	memory language.Memory
	view   io.ReaderAt // of the memory, while a page is built
	heaps  []heap
	low    uint64 // of the code cache
	high   uint64

	interpreter uint64              // location of the list of its pieces, 0 if unknown
	texts       map[uint64]string   // C strings by address: names of pieces that are not methods
	long        map[uint64]*longOne // by start
	longRules   int                 // number of rules of long, and of some forgotten pieces
}

// MaxCache bounds the code cache: HotSpot's own limit is 2 GiB.
const MaxCache = 4 << 30

// Open returns the VM of a process that has mapped libjvm with the given layout, at a load bias. memory is the memory
// of the process, by address. Open returns ErrNotReady while the VM has no code cache.
func Open(layout *Layout, bias uint64, memory language.Memory) (*VM, error) {
	vm := &VM{
		layout: layout, bias: bias, memory: memory, view: memory,
		texts: map[uint64]string{}, long: map[uint64]*longOne{},
	}
	if err := vm.readHeaps(); err != nil {
		return nil, err
	}
	if err := vm.readBounds(); err != nil {
		return nil, err
	}
	if vm.high-vm.low > MaxCache {
		return nil, fmt.Errorf("code cache from 0x%x to 0x%x: %w", vm.low, vm.high, errImplausible)
	}
	return vm, nil
}

// readBounds reads the bounds of the code cache, including room to grow. A VM that has just started adds its heaps one
// by one, after it has reserved the memory of all heaps and recorded the bounds of that memory.
func (vm *VM) readBounds() error {
	vm.low, vm.high = vm.heaps[0].start, vm.heaps[0].end
	for _, h := range vm.heaps {
		vm.low, vm.high = min(vm.low, h.start), max(vm.high, h.end)
	}
	l := &vm.layout.blobs
	if l.low == 0 || l.high == 0 {
		return nil // a VM with one heap
	}
	m := memory{r: vm.view}
	if low, high := m.u64(l.low+vm.bias), m.u64(l.high+vm.bias); low != 0 && low < high {
		vm.low, vm.high = min(vm.low, low), max(vm.high, high)
	}
	return m.err
}

// Bounds returns the address bounds of the code cache, including room to grow.
func (vm *VM) Bounds() (low, high uint64) { return vm.low, vm.high }

// heap is a part of the code cache.
type heap struct {
	start, end uint64 // reserved
	low, high  uint64 // in use
	segments   uint64 // address of a byte for each segment
	shift      uint8  // log2 of a segment's bytes
}

// maxHeaps bounds the number of parts of a code cache; there are three.
const maxHeaps = 16

// readHeaps reads the locations of the parts of the code cache. The parts grow.
func (vm *VM) readHeaps() error {
	m := memory{r: vm.view}
	l := &vm.layout.blobs
	pointers := make([]uint64, 1)
	if l.heaps == 0 {
		pointers[0] = m.u64(l.heap + vm.bias)
	} else {
		array := m.u64(l.heaps + vm.bias)
		if m.err == nil && array == 0 {
			return ErrNotReady
		}
		n, data := m.u32(array+l.arrayLength), m.u64(array+l.arrayData)
		if n > maxHeaps {
			return fmt.Errorf("%d code heaps: %w", n, errImplausible)
		}
		pointers = make([]uint64, n)
		for i := range pointers {
			pointers[i] = m.u64(data + 8*uint64(i))
		}
	}
	var found []heap
	for _, at := range pointers {
		h, err := vm.heapAt(&m, at)
		if err != nil {
			return err
		}
		found = append(found, h)
	}
	if m.err == nil && len(found) == 0 {
		return ErrNotReady
	}
	vm.heaps = found
	return m.err
}

func (vm *VM) heapAt(m *memory, at uint64) (heap, error) {
	l := &vm.layout.blobs
	space := at + l.heapMemory
	h := heap{
		start: m.u64(space + l.spaceStart), end: m.u64(space + l.spaceEnd),
		low: m.u64(space + l.spaceLow), high: m.u64(space + l.spaceHigh),
		segments: m.u64(at + l.heapSegments + l.spaceLow),
	}
	shift := m.u32(at + l.log2Segment)
	switch {
	case m.err != nil:
		return h, m.err
	case at == 0 || h.end == 0 || h.low == h.high || h.segments == 0: // the VM sets these one after another
		return h, ErrNotReady
	case shift < 3 || shift > 16 || h.start > h.low || h.low > h.high || h.high > h.end ||
		h.end-h.start > MaxCache || h.end > 1<<47:
		return h, fmt.Errorf("code heap from 0x%x to 0x%x: %w", h.start, h.end, errImplausible)
	}
	h.shift = uint8(shift)
	return h, nil
}

// block is a used block of a heap, and its description of its code.
type block struct {
	start, end  uint64 // header included
	shift       uint8  // log2 of the bytes of its heap's segments
	name        uint64 // C string
	code, limit uint64 // the instructions
	frame       int64  // size of a frame in bytes, 0 if none
	complete    int64  // offset in the code at which the frame is complete; negative if never
	method      uint64 // 0 if it is not the code of a method
	compileID   uint64
}

// maxBlocks bounds the blocks of a page: a segment is at least eight bytes.
const maxBlocks = 1 << 14

// blocks returns the used blocks that overlap [lo, hi), in address order.
func (vm *VM) blocks(lo, hi uint64) ([]block, error) {
	found, beyond, err := vm.blocksSoFar(lo, hi)
	if err == nil && beyond { // the heaps may have grown
		if err = vm.readHeaps(); err == nil {
			found, _, err = vm.blocksSoFar(lo, hi)
		}
	}
	slices.SortFunc(found, func(a, b block) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	return found, err
}

// blocksSoFar does the same for the heaps as they were last read, in the order of the heaps. beyond reports whether
// [lo, hi) or a block ends outside the known part of the heaps.
func (vm *VM) blocksSoFar(lo, hi uint64) (found []block, beyond bool, err error) {
	beyond = !slices.ContainsFunc(vm.heaps, func(h heap) bool { return lo >= h.low && hi <= h.high })
	for _, h := range vm.heaps {
		from, to := max(lo, h.low), min(hi, h.high)
		if from >= to {
			continue
		}
		at, err := vm.firstBlock(&h, from)
		for n := 0; err == nil && at < to && n < maxBlocks; n++ {
			var b block
			var length uint64
			if b, length, err = vm.block(&h, at); b.end > 0 {
				found = append(found, b)
			}
			at += length
		}
		switch {
		case errors.Is(err, errBeyond):
			beyond = true
		case err != nil && !errors.Is(err, errUnused):
			return nil, false, err
		}
	}
	return found, beyond, nil
}

// firstBlock returns the start of the block, or of the free memory, that contains addr: a segment's byte is the minimum
// number of segments between the start of its block and the segment.
func (vm *VM) firstBlock(h *heap, addr uint64) (uint64, error) {
	const free = 0xff
	m := memory{r: vm.view}
	segment := (addr - h.low) >> h.shift
	b := make([]byte, free)
	for range maxBlocks {
		first := segment - min(segment, free-1)
		m.readBytes(h.segments+first, b[:segment-first+1])
		if m.err != nil {
			return 0, m.err
		}
		back := b[segment-first]
		switch {
		case back == 0 || back == free:
			return h.low + segment<<h.shift, nil
		case uint64(back) > segment:
			return 0, fmt.Errorf("segment %d of a code heap begins %d before: %w", segment, back, errImplausible)
		}
		segment -= uint64(back)
	}
	return 0, fmt.Errorf("code heap at 0x%x: no block holds 0x%x: %w", h.low, addr, errImplausible)
}

// The reasons why there is no block at an address.
var (
	errUnused = errors.New("not used yet")
	errBeyond = errors.New("it ends beyond its heap") // the heap has grown, or the memory is not used yet
)

// block reads the block at an address. For a free block, it returns only the length.
func (vm *VM) block(h *heap, at uint64) (block, uint64, error) {
	l := &vm.layout.blobs
	m := memory{r: vm.view}
	if h.high-at < l.bytes {
		return block{}, 0, errBeyond
	}
	b := make([]byte, l.bytes)
	m.readBytes(at, b)
	if m.err != nil {
		return block{}, 0, m.err
	}
	segments := l.blockLength.valueIn(b)
	switch {
	case segments <= 0:
		return block{}, 0, errUnused
	case uint64(segments) > (h.high-at)>>h.shift:
		return block{}, 0, errBeyond
	}
	length := uint64(segments) << h.shift
	if l.blockUsed.valueIn(b) == 0 {
		return block{}, length, nil
	}
	return vm.parse(b, at, h.shift), length, nil
}

// parse decodes a block's description of its code. end is 0 if the block has no code, or is inconsistent, for example
// because the VM is just writing it.
func (vm *VM) parse(b []byte, at uint64, shift uint8) block {
	l := &vm.layout.blobs
	blob := b[l.header:]
	start := at + l.header
	out := block{
		start: at, end: at + uint64(l.blockLength.valueIn(b))<<shift, shift: shift,
		name:  binary.LittleEndian.Uint64(blob[l.name:]),
		frame: max(0, wordSize*l.frameSize.valueIn(blob)), complete: l.complete.valueIn(blob),
	}
	if strings.HasSuffix(vm.readText(out.name), methodSuffix) { // other blobs have other data in these places
		out.method, out.compileID = binary.LittleEndian.Uint64(blob[l.method:]), uint64(l.compileID.valueIn(blob))
	}
	if l.codeBegin != 0 {
		out.code, out.limit = binary.LittleEndian.Uint64(blob[l.codeBegin:]), binary.LittleEndian.Uint64(blob[l.codeEnd:])
	} else {
		out.code, out.limit = start+uint64(l.codeOffset.valueIn(blob)), start+uint64(l.codeEndOffset.valueIn(blob))
	}
	if out.code <= start || out.code >= out.limit || out.limit > out.end || out.frame > maxDepth {
		return block{}
	}
	return out
}

// methodSuffix ends HotSpot's names of compiled methods and of wrappers that call native methods.
const methodSuffix = "nmethod"

// valueIn returns the number in an object.
func (m member) valueIn(b []byte) int64 {
	if m.at+m.size > uint64(len(b)) {
		return 0
	}
	switch b = b[m.at:]; m.size {
	case 1:
		return int64(b[0])
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}
