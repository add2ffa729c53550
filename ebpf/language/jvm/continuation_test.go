package jvm

import (
	"encoding/binary"
	"errors"
	"maps"
	"testing"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestBarrierRule: only the byte before the stub has the rule that leads to the heap, and the other rules stay.
func TestBarrierRule(t *testing.T) {
	rule := func(depth int64) unwind.WideRule { return frame{depth: depth}.wideRule() }
	heap := unwind.WideRule{CFA: unwind.CFAFrozen}
	rules := []rowAt{{at: 0, rule: rule(8)}, {at: 4, rule: rule(16)}, {at: 9, rule: rule(24)}, {at: 10, rule: rule(32)},
		{at: 20, rule: rule(40)}}
	at := func(rules []rowAt, offset int) (found unwind.WideRule) {
		last := -1
		for _, r := range rules {
			if r.at < last {
				t.Errorf("the row of %d comes after that of %d", r.at, last)
			}
			if last = r.at; r.at <= offset {
				found = r.rule
			}
		}
		return found
	}
	for _, barrier := range []int{1, 4, 5, 9, 10, 11, 15, 20, 21, 29} {
		got := withBarrier(rules, barrier, 30)
		for offset := range 30 {
			want := at(rules, offset)
			if offset == barrier-1 {
				want = heap
			}
			if at(got, offset) != want {
				t.Errorf("stub at %d: the rule at %d is %s, not %s", barrier, offset, at(got, offset), want)
			}
		}
	}
	if got := withBarrier(rules, 30, 30); len(got) != len(rules) {
		t.Errorf("without a stub: %d rules", len(got))
	}
}

// appendUnsigned5 encodes a number as HotSpot does since JDK 20: the digits 1 to 191 end it, those from 192 on do not.
func appendUnsigned5(b []byte, v uint32) []byte {
	for range unsigned5Bytes - 1 {
		if v < 191 {
			break
		}
		v -= 191
		b = append(b, byte(192+v%64))
		v /= 64
	}
	return append(b, byte(v+1))
}

// continuationsVM returns a VM that has the classes of virtual threads, and two threads.
func continuationsVM() (*VM, *fakeMemory) {
	m := newFakeMemory()
	l := &Layout{excluded: 1, version: firstContinuations}
	l.names.className, l.names.length, l.names.body, l.names.poolBytes = 16, 4, 6, 24
	symbol := func(s string) uint64 {
		at := m.place(make([]byte, 6+len(s))...)
		m.put16(at+4, uint64(len(s)))
		copy(m.at(at+6), s)
		return at
	}
	type field struct {
		name   string
		at     uint32
		access uint32
		flags  uint32
	}
	class := func(name string, added uint32, fields ...field) uint64 {
		pool := m.place(make([]byte, 24+8*(len(fields)+1))...)
		stream := appendUnsigned5(appendUnsigned5(nil, uint32(len(fields))-added), added)
		for i, f := range fields {
			m.put64(pool+24+8*uint64(i+1), symbol(f.name))
			for _, v := range []uint32{uint32(i + 1), 1000, f.at, f.access, f.flags} {
				stream = appendUnsigned5(stream, v)
			}
			if f.flags&4 != 0 {
				stream = appendUnsigned5(stream, 70_000)
			}
		}
		array := m.place(append(make([]byte, 4), append(stream, 0)...)...)
		m.put32(array, uint64(len(stream)+1))
		at := m.place(make([]byte, 64)...)
		m.put64(at+16, symbol(name))
		m.put64(at+24, pool)
		m.put64(at+32, array)
		m.put32(at+40, 57) // 56 bytes, and a bit that says that objects have no fixed size
		return at
	}
	classes := []uint64{
		class("java/lang/Object", 0), class(threadClass, 0, field{name: "cont", at: 300, flags: 4}),
		class(continuationClass, 0, field{name: "parent", at: 16}, field{name: "child", at: 20}, field{name: "tail", at: 24},
			field{name: "PIN", at: 8, access: 8}),
		class(chunkClass, 1, field{name: "parent", at: 32}, field{name: "size", at: 12}, field{name: "sp", at: 16},
			field{name: "bottom", at: 20}, field{name: "added", at: 24, flags: 2}),
	}
	variable := func(v uint64) uint64 {
		at := m.place(make([]byte, 8)...)
		m.put64(at, v)
		return at - fakeBias
	}
	c := &l.continuations
	c.known, c.entryBytes, c.classConstants, c.classFields, c.classHelper, c.bytes = true, 64, 24, 32, 40, 4
	table := m.place(make([]byte, 8*8)...)
	for i, at := range classes {
		m.put64(table+8*uint64(i), at)
	}
	c.classes = table - fakeBias
	c.oopBase, c.oopShift = variable(0x1000), variable(3)
	c.classBase, c.classShift = variable(fakeBase), variable(0)
	c.osThread, c.own, c.threadsLength, c.threadsData = 8, 16, 4, 16
	list, pointers := m.place(make([]byte, 32)...), m.place(make([]byte, 16)...)
	m.put32(list+4, 2)
	m.put64(list+16, pointers)
	for i := range uint64(2) {
		thread, os, own := m.place(make([]byte, 64)...), m.place(make([]byte, 32)...), m.place(make([]byte, 0x1100)...)
		m.put64(pointers+8*i, thread)
		m.put64(thread+8, os)
		m.put64(os+16, own)
		m.put64(own+0x310+8, thread)
		m.put64(own+0x100+8*i, thread) // at another place in each thread
	}
	c.threads = variable(list)
	return &VM{layout: l, bias: fakeBias, memory: m, texts: map[uint64]string{}}, m
}

// TestContinuations: the layout of continuations follows from the fields of Java's classes, and the place of the
// pointer to the thread's descriptor from the threads.
func TestContinuations(t *testing.T) {
	vm, m := continuationsVM()
	f, err := vm.continuations()
	if err != nil {
		t.Fatal(err)
	}
	class := m.at(vm.layout.continuations.classes + fakeBias + 3*8)
	want := language.Frozen{
		Descriptor: 0x318, EntryBytes: 64, Continuation: 300, Outer: 16, Chunk: 24, ChunkParent: 32, ChunkSize: 12,
		ChunkSP: 16, ChunkBottom: 20, ChunkStack: 56, LocalsBelow: localsBelow, ReferenceBytes: 4, Base: 0x1000, Shift: 3,
		ClassAt: 8, ClassMask: 1<<32 - 1, Class: binary.LittleEndian.Uint64(class) - fakeBase, OSThread: 8, OSThreadOwn: 16,
	}
	if *f != want {
		t.Errorf("%+v, not %+v", *f, want)
	}
	m.put64(vm.layout.continuations.threads+fakeBias, 0)
	if _, err := vm.continuations(); !errors.Is(err, ErrNotReady) {
		t.Errorf("without threads: %v", err)
	}
	m.put64(vm.layout.continuations.classes+fakeBias+3*8, 0)
	if _, err := vm.continuations(); !errors.Is(err, ErrNotReady) {
		t.Errorf("without a class of chunks: %v", err)
	}
	vm.layout.continuations.known = false
	if _, err := vm.continuations(); err == nil || errors.Is(err, language.ErrNotReady) {
		t.Errorf("without a description: %v", err)
	}
}

// TestFieldsOfClass: damaged fields are an error, or some fields, but never more than there are.
func TestFieldsOfClass(t *testing.T) {
	vm, m := continuationsVM()
	class := binary.LittleEndian.Uint64(m.at(vm.layout.continuations.classes + fakeBias + 3*8))
	all := vm.fields(&memory{r: m}, class)
	if len(all) != 4 {
		t.Fatalf("fields %v", all)
	}
	stream := binary.LittleEndian.Uint64(m.at(class + 32))
	length := binary.LittleEndian.Uint32(m.at(stream))
	for cut := range length {
		m.put32(stream, uint64(cut))
		r := &memory{r: m}
		for name, at := range vm.fields(r, class) {
			if all[name] != at {
				t.Errorf("%d bytes: %s at %d", cut, name, at)
			}
		}
		if cut < length-1 && r.err == nil {
			t.Errorf("%d of %d bytes: no error", cut, length)
		}
	}
	m.put32(stream, uint64(length))
	if again := vm.fields(&memory{r: m}, class); !maps.Equal(all, again) {
		t.Errorf("fields %v", again)
	}
}
