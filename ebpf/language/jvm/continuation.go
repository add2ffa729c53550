package jvm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headwater/headwater/ebpf/language"
)

// continuationLayout is the layout data needed to find the frames of virtual threads in the heap (HotSpot,
// continuationFreezeThaw.cpp and stackChunkOop.hpp). The layout of Java's own classes depends on the process.
type continuationLayout struct {
	known bool // whether the VM describes it

	osThread, own                            uint64 // Thread to OSThread, and its pthread_t
	entry, lastSP, carrier                   uint64 // in a JavaThread
	entryPC                                  uint64 // ELF virtual address of the pointer
	entryBytes                               uint64 // size of a ContinuationEntry
	threads                                  uint64 // ELF virtual address of a pointer to a ThreadsList
	threadsLength, threadsData               uint64
	classes                                  uint64 // ELF virtual address of an array of pointers to classes
	classConstants, classFields, classHelper uint64
	bytes                                    uint64 // offset of the data of an Array<u1>
	oopBase, oopShift, classBase, classShift uint64 // ELF virtual addresses
	pointers                                 uint64 // ELF virtual address of a pointer to data of ZGC, 0 if none
	goodMask, badMask, colorShift            uint64 // in that data: pointers to variables
	pointersX, goodMaskX, badMaskX           uint64 // of the ZGC without generations, up to JDK 23
}

// firstContinuations is the first version of Java whose virtual threads are no preview.
const firstContinuations = 21

// continuations looks up the layout of continuations.
func (r *resolver) continuations() (c continuationLayout) {
	c.osThread, c.own = r.offset("Thread::_osthread"), r.offset("OSThread::_pthread_id")
	c.entry, c.carrier = r.offset("JavaThread::_cont_entry"), r.offset("JavaThread::_threadObj")
	c.lastSP = r.offset("JavaThread::_anchor") + r.offset("JavaFrameAnchor::_last_Java_sp")
	c.threadsLength, c.threadsData = r.offset("ThreadsList::_length"), r.offset("ThreadsList::_threads")
	c.classConstants, c.classHelper = r.offset("InstanceKlass::_constants"), r.offset("Klass::_layout_helper")
	c.classFields, c.bytes = r.offset("InstanceKlass::_fieldinfo_stream"), r.offset("Array<u1>::_data")
	c.entryPC, c.threads = r.static("ContinuationEntry::_return_pc"), r.static("ThreadsSMRSupport::_java_thread_list")
	c.classes = r.static("vmClasses::_klasses[static_cast<int>(vmClassID::Object_klass_knum)]")
	c.oopBase = cmp.Or(r.static("CompressedOops::_base"), r.static("CompressedOops::_narrow_oop._base"))
	c.oopShift = cmp.Or(r.static("CompressedOops::_shift"), r.static("CompressedOops::_narrow_oop._shift"))
	c.classBase = cmp.Or(
		r.static("CompressedKlassPointers::_base"), r.static("CompressedKlassPointers::_narrow_klass._base"))
	c.classShift = cmp.Or(
		r.static("CompressedKlassPointers::_shift"), r.static("CompressedKlassPointers::_narrow_klass._shift"))
	c.entryBytes = r.l.sizes["ContinuationEntry"]
	c.known = r.err == nil && c.entryBytes != 0 && c.entryBytes <= maxObject
	for _, at := range []uint64{c.entryPC, c.threads, c.classes, c.oopBase, c.oopShift, c.classBase, c.classShift} {
		c.known = c.known && at != 0
	}
	z := resolver{l: r.l}
	if c.pointers = z.static("ZGlobalsForVMStructs::_instance_p"); c.pointers != 0 {
		c.goodMask = z.offset("ZGlobalsForVMStructs::_ZPointerLoadGoodMask")
		c.badMask = z.offset("ZGlobalsForVMStructs::_ZPointerLoadBadMask")
		c.colorShift = z.offset("ZGlobalsForVMStructs::_ZPointerLoadShift")
	}
	if c.pointersX = z.static("XGlobalsForVMStructs::_instance_p"); c.pointersX != 0 {
		c.goodMaskX = z.offset("XGlobalsForVMStructs::_XGlobalsForVMStructs::_XAddressGoodMask",
			"XGlobalsForVMStructs::_XAddressGoodMask")
		c.badMaskX = z.offset("XGlobalsForVMStructs::_XAddressBadMask")
	}
	c.known = c.known && z.err == nil
	return c
}

// Classes of Java whose fields lead to a chunk.
const (
	threadClass       = "java/lang/Thread"
	continuationClass = "jdk/internal/vm/Continuation"
	chunkClass        = "jdk/internal/vm/StackChunk"
)

// Bounds on the data that is read to find continuations.
const (
	maxClasses    = 1 << 9
	maxClassField = 1 << 12
	maxFieldBytes = 1 << 14
	someThreads   = 64
	threadBytes   = 0x1000 // from the thread pointer on, see findDescriptor
)

// continuations returns how callers in the heap are found. The error is ErrNotReady while the VM starts, and any other
// one if they cannot be found.
func (vm *VM) continuations() (*language.Frozen, error) {
	l := &vm.layout.continuations
	if !l.known || vm.layout.version < firstContinuations {
		return nil, fmt.Errorf("continuations of a Java VM: %w", language.ErrUnknown)
	}
	m := &memory{r: &cached{r: vm.memory, chunks: map[int64][]byte{}}}
	classes, err := vm.classes(m, threadClass, continuationClass, chunkClass)
	if err != nil {
		return nil, err
	}
	thread, continuation, chunk := vm.fields(m, classes[0]), vm.fields(m, classes[1]), vm.fields(m, classes[2])
	f := &language.Frozen{
		EntryPC: l.entryPC, OSThread: l.osThread, OSThreadOwn: l.own, Entry: l.entry, LastSP: l.lastSP,
		Carrier: l.carrier, EntryBytes: l.entryBytes,
		Continuation: thread.offsetOf(m, "cont"),
		Outer:        continuation.offsetOf(m, "parent"), Chunk: continuation.offsetOf(m, "tail"),
		ChunkParent: chunk.offsetOf(m, "parent"), ChunkSize: chunk.offsetOf(m, "size"), ChunkSP: chunk.offsetOf(m, "sp"),
		LocalsBelow: localsBelow,
	}
	if at, ok := chunk["bottom"]; ok {
		f.ChunkBottom = at
	} else {
		f.ChunkBottom, f.BottomFromEnd = chunk.offsetOf(m, "argsize"), true
	}
	f.ChunkStack = uint64(m.u32(classes[2]+l.classHelper)) &^ (wordSize - 1) // the stack follows the fields
	vm.references(m, f, continuation)
	vm.classOf(m, f, classes[2], chunk)
	f.Descriptor = vm.findDescriptor(m)
	if m.err != nil {
		return nil, m.err
	}
	if f.Descriptor == 0 {
		return nil, fmt.Errorf("threads of a Java VM do not lead to their descriptors: %w", language.ErrUnknown)
	}
	return f, nil
}

// localsBelow is the offset of the pointer to the locals in an interpreted frame, in bytes below rbp, since JDK 9.
const localsBelow = 56

// classes returns the classes of the given names, among those that the VM itself uses.
func (vm *VM) classes(m *memory, names ...string) ([]uint64, error) {
	l := vm.layout
	found := make([]uint64, len(names))
	for i := range uint64(maxClasses) {
		class := m.u64(l.continuations.classes + vm.bias + wordSize*i)
		if m.err != nil || class == 0 {
			break
		}
		symbol := m.u64(class + l.names.className)
		if n := slices.Index(names, vm.symbol(m, symbol)); n >= 0 && m.err == nil {
			found[n] = class
		}
		if !slices.Contains(found, 0) {
			return found, nil
		}
	}
	return nil, fmt.Errorf("classes of a Java VM: %w", ErrNotReady)
}

// fieldOffsets is the offsets of the fields of a class, by name.
type fieldOffsets map[string]uint64

// offsetOf returns the offset of a field, which must exist.
func (o fieldOffsets) offsetOf(m *memory, name string) uint64 {
	at, ok := o[name]
	if (!ok || at > maxClassField) && m.err == nil {
		m.err = fmt.Errorf("field %s of a class of Java: %w", name, errImplausible)
	}
	return at
}

// fields reads the fields of a class, which are a stream of numbers: the numbers of fields in the source and of those
// that the VM adds, then for each the indexes of its name and type, its offset, two words of flags, and up to three
// numbers by these flags (HotSpot, fieldInfo.hpp).
func (vm *VM) fields(m *memory, class uint64) fieldOffsets {
	l := &vm.layout.continuations
	stream := m.u64(class + l.classFields)
	pool := m.u64(class + l.classConstants)
	b := make([]byte, min(m.u32(stream), maxFieldBytes))
	m.readBytes(stream+l.bytes, b)
	next := func() uint64 {
		v, size := vm.layout.unsigned5(b)
		if size == 0 && m.err == nil {
			m.err = fmt.Errorf("fields of a class of Java: %w", errImplausible)
		}
		b = b[size:]
		return uint64(v)
	}
	const (
		initialized, generic, contended = 1 << 0, 1 << 2, 1 << 4
		static                          = 1 << 3
	)
	found := fieldOffsets{}
	inSource, added := next(), next()
	for i := uint64(0); i < inSource+added && m.err == nil; i++ {
		name, _, at, access, flags := next(), next(), next(), next(), next()
		for _, more := range []uint64{initialized, generic, contended} {
			if flags&more != 0 {
				next()
			}
		}
		if m.err == nil && i < inSource && access&static == 0 {
			found[vm.symbol(m, m.u64(pool+vm.layout.names.poolBytes+wordSize*name))] = at
		}
	}
	return found
}

// references sets how references to objects are read. The fields of a continuation that refer to objects are next to
// each other.
func (vm *VM) references(m *memory, f *language.Frozen, continuation fieldOffsets) {
	l := &vm.layout.continuations
	a, b := continuation.offsetOf(m, "parent"), continuation.offsetOf(m, "child")
	if f.ReferenceBytes = max(a, b) - min(a, b); f.ReferenceBytes == 4 {
		f.Base, f.Shift = m.u64(l.oopBase+vm.bias), uint64(m.u32(l.oopShift+vm.bias))
		return
	}
	if m.err == nil && f.ReferenceBytes != 8 {
		m.err = fmt.Errorf("references of %d bytes: %w", f.ReferenceBytes, errImplausible)
	}
	variable := func(data, at uint64) uint64 { return m.u64(m.u64(data+vm.bias) + at) }
	switch {
	case l.pointersX != 0 && m.u64(variable(l.pointersX, l.goodMaskX)) != 0:
		f.BadBits = variable(l.pointersX, l.badMaskX) - vm.bias
	case l.pointers != 0 && m.u64(variable(l.pointers, l.goodMask)) != 0:
		f.BadBits = variable(l.pointers, l.badMask) - vm.bias
		f.ColorShift = variable(l.pointers, l.colorShift) - vm.bias
	}
}

// classOf sets the bits of a chunk that identify its class: the upper bits of its first word if the VM has compact
// headers, else half of its second word, or all of it. The fields follow.
func (vm *VM) classOf(m *memory, f *language.Frozen, class uint64, chunk fieldOffsets) {
	l := &vm.layout.continuations
	first := chunk.offsetOf(m, "parent")
	for _, at := range chunk {
		first = min(first, at)
	}
	narrow := (class - m.u64(l.classBase+vm.bias)) >> (m.u32(l.classShift+vm.bias) & 31)
	const compactShift = 42
	switch {
	case first == wordSize:
		f.ClassMask, f.Class = ^uint64(1<<compactShift-1), narrow<<compactShift
	case first < 2*wordSize:
		f.ClassAt, f.ClassMask, f.Class = wordSize, 1<<32-1, narrow
	default:
		f.ClassAt, f.ClassMask, f.Class = wordSize, ^uint64(0), class
	}
}

// findDescriptor returns the offset from the thread pointer at which every thread has a pointer to its JavaThread: the
// value of a key of pthread_getspecific. 0 if there is none.
func (vm *VM) findDescriptor(m *memory) int64 {
	l := &vm.layout.continuations
	list := m.u64(l.threads + vm.bias)
	if m.err == nil && list == 0 {
		m.err = fmt.Errorf("threads of a Java VM: %w", ErrNotReady)
	}
	count, data := m.u32(list+l.threadsLength), m.u64(list+l.threadsData)
	if m.err == nil && count == 0 {
		m.err = fmt.Errorf("threads of a Java VM: %w", ErrNotReady)
	}
	var left []int64
	for i := range uint64(min(count, someThreads)) {
		thread := m.u64(data + wordSize*i)
		own := m.u64(m.u64(thread+l.osThread) + l.own)
		area := memory{r: m.r}
		if m.err != nil {
			return 0
		}
		var here []int64
		for at := uint64(0); at < threadBytes && area.err == nil; at += wordSize {
			if area.u64(own+at) == thread && area.err == nil {
				here = append(here, int64(at))
			}
		}
		if i == 0 {
			left = here
		}
		left = slices.DeleteFunc(left, func(at int64) bool { return !slices.Contains(here, at) })
	}
	if len(left) == 0 {
		return 0
	}
	return left[0]
}
