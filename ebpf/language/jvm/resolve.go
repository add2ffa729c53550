package jvm

import (
	"cmp"
	"errors"
	"fmt"
)

// member is the offset and size of a number in an object.
type member struct{ at, size uint64 }

// blobLayout is the layout data needed to find pieces of code.
type blobLayout struct {
	low, high uint64 // ELF virtual addresses of pointers: bounds of the code cache; 0 if there are none
	heaps     uint64 // of a pointer to an array of heaps; 0 if there is only one heap
	heap      uint64 // of a pointer to the one heap

	arrayLength, arrayData                    uint64
	heapMemory, heapSegments, log2Segment     uint64
	spaceLow, spaceHigh, spaceStart, spaceEnd uint64

	header                    uint64 // bytes before a blob in its block
	blockLength, blockUsed    member
	name                      uint64
	size, frameSize, complete member
	codeBegin, codeEnd        uint64 // pointers, if not 0
	codeOffset, codeEndOffset member // else
	method                    uint64
	compileID                 member

	interpreter                      uint64 // ELF virtual address of a pointer; 0 if unknown
	stubBuffer                       uint64
	queueEnd                         member
	codeletSize                      member
	codeletDescription, codeletBytes uint64

	bytes uint64 // size of the part of a block, with its header, that contains all these fields
}

// nameLayout is the layout data needed to name a method.
type nameLayout struct {
	constMethod, constants, nameIndex, holder, poolBytes, className, length, body uint64

	sourceInPool, sourceInClass member // at most one is described: the index of the source file's name

	constMethodBytes                 uint64 // without the bytecodes that follow; 0 if lines are not described
	flags, codeSize, constMethodSize member
}

// resolver looks up fields, and remembers the first missing one.
type resolver struct {
	l   *Layout
	err error
}

// offset returns the offset of the first of the named fields that exists.
func (r *resolver) offset(names ...string) uint64 {
	for _, name := range names {
		if f, ok := r.l.fields[name]; ok && !f.static {
			if f.at > maxObject && r.err == nil {
				r.err = fmt.Errorf("field %s at %d: %w", name, f.at, errImplausible)
			}
			return f.at
		}
	}
	if r.err == nil {
		r.err = fmt.Errorf("HotSpot does not describe its field %s", names[0])
	}
	return 0
}

// maxObject bounds the size of a described object.
const maxObject = 1 << 12

// static returns the ELF virtual address of a static field, or 0 if there is none.
func (r *resolver) static(name string) uint64 {
	if f := r.l.fields[name]; f.static {
		return f.at
	}
	return 0
}

// member returns the location of a number. Its size is the size of its type.
func (r *resolver) member(name string) member {
	m := member{at: r.offset(name), size: 4}
	switch f := r.l.fields[name]; f.typ {
	case "size_t", "uint64_t", "intptr_t", "address":
		m.size = 8
	case "u2", "int16_t", "uint16_t", "short":
		m.size = 2
	case "bool", "u1", "uint8_t", "char", "jbyte":
		m.size = 1
	}
	return m
}

// optional returns the zero value if there is no such field.
func (r *resolver) optional(name string) member {
	if f, ok := r.l.fields[name]; !ok || f.static {
		return member{}
	}
	return r.member(name)
}

// resolve looks up all needed fields.
func (l *Layout) resolve() error {
	r := resolver{l: l}
	b := &l.blobs
	b.low, b.high = r.static("CodeCache::_low_bound"), r.static("CodeCache::_high_bound")
	b.heaps, b.heap = r.static("CodeCache::_heaps"), r.static("CodeCache::_heap")
	if b.heaps == 0 && b.heap == 0 {
		return errors.New("HotSpot does not describe its code cache")
	}
	if b.heaps != 0 {
		b.arrayLength = r.offset("GrowableArrayBase::_len", "GenericGrowableArray::_len")
		b.arrayData = r.offset("GrowableArray<int>::_data")
	}
	b.heapMemory, b.heapSegments = r.offset("CodeHeap::_memory"), r.offset("CodeHeap::_segmap")
	b.log2Segment = r.offset("CodeHeap::_log2_segment_size")
	b.spaceLow, b.spaceHigh = r.offset("VirtualSpace::_low"), r.offset("VirtualSpace::_high")
	b.spaceStart, b.spaceEnd = r.offset("VirtualSpace::_low_boundary"), r.offset("VirtualSpace::_high_boundary")
	r.resolveBlob(b)
	r.interpreter(b)
	n := &l.names
	n.constMethod, n.constants = r.offset("Method::_constMethod"), r.offset("ConstMethod::_constants")
	n.nameIndex = r.offset("ConstMethod::_name_index")
	n.holder, n.className = r.offset("ConstantPool::_pool_holder"), r.offset("Klass::_name")
	n.length, n.body = r.offset("Symbol::_length"), r.offset("Symbol::_body[0]", "Symbol::_body")
	n.poolBytes = l.sizes["ConstantPool"]
	if r.err == nil && (n.poolBytes == 0 || b.header == 0) {
		r.err = errors.New("HotSpot does not describe the size of ConstantPool or HeapBlock")
	}
	n.sourceInPool = r.optional("ConstantPool::_source_file_name_index")
	n.sourceInClass = r.optional("InstanceKlass::_source_file_name_index")
	more := resolver{l: l}
	more.lines(n)
	l.debug = (&resolver{l: l}).debug()
	l.frames = (&resolver{l: l}).interpreted()
	l.perf = (&resolver{l: l}).resolvePerf()
	l.continuations = (&resolver{l: l}).continuations()
	return r.err
}

// lines looks up the fields that are needed to find the line of a bytecode, if the VM describes all fields.
func (r *resolver) lines(n *nameLayout) {
	n.flags = r.optional("ConstMethod::_flags")
	if n.flags == (member{}) { // since JDK 21
		n.flags = r.member("ConstMethod::_flags._flags")
	}
	n.codeSize, n.constMethodSize = r.member("ConstMethod::_code_size"), r.member("ConstMethod::_constMethod_size")
	bytes := r.l.sizes["ConstMethod"]
	if last := max(n.flags.at, n.codeSize.at, n.constMethodSize.at) + wordSize; r.err == nil && bytes <= maxObject {
		n.constMethodBytes = bytes
		if bytes+wordSize < last {
			n.constMethodBytes = 0
		}
	}
}

// resolveBlob looks up the fields of a piece of code.
func (r *resolver) resolveBlob(b *blobLayout) {
	b.header = r.l.sizes["HeapBlock"]
	b.blockLength, b.blockUsed = r.member("HeapBlock::Header::_length"), r.member("HeapBlock::Header::_used")
	b.name = r.offset("CodeBlob::_name")
	b.size, b.frameSize = r.member("CodeBlob::_size"), r.member("CodeBlob::_frame_size")
	b.complete = r.member("CodeBlob::_frame_complete_offset")
	if f, ok := r.l.fields["CodeBlob::_code_begin"]; ok {
		b.codeBegin, b.codeEnd = f.at, r.offset("CodeBlob::_code_end")
	} else {
		b.codeOffset = r.member("CodeBlob::_code_offset")
		b.codeEndOffset = r.member("CodeBlob::_data_offset")
	}
	b.method = r.offset("nmethod::_method", "CompiledMethod::_method")
	b.compileID = r.member("nmethod::_compile_id")
	for _, at := range []uint64{
		b.size.at, b.frameSize.at, b.complete.at, b.name, b.codeBegin, b.codeEnd,
		b.codeOffset.at, b.codeEndOffset.at, b.method, b.compileID.at,
	} {
		b.bytes = max(b.bytes, b.header+at+8)
	}
}

// interpreter looks up the location of the list of the interpreter's pieces, if described.
func (r *resolver) interpreter(b *blobLayout) {
	if b.interpreter = r.static("AbstractInterpreter::_code"); b.interpreter == 0 {
		return
	}
	b.stubBuffer, b.queueEnd = r.offset("StubQueue::_stub_buffer"), r.member("StubQueue::_queue_end")
	b.codeletSize = r.member("InterpreterCodelet::_size")
	b.codeletDescription = r.offset("InterpreterCodelet::_description")
	b.codeletBytes = cmp.Or(r.l.sizes["InterpreterCodelet"], 16)
}
