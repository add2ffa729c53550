package jvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// fakeMemory is the memory of a process from fakeBase on. All other addresses are unreadable.
type fakeMemory struct {
	b    []byte
	free uint64 // address of the unused rest
}

const (
	fakeBase = 0x10000
	fakeBias = 0x1000
	heapBase = 0x40000
	heapSize = 0x8000
	heapUsed = 0x4000
	segment  = 128
)

func newFakeMemory() *fakeMemory {
	return &fakeMemory{b: make([]byte, 0x50000), free: fakeBase}
}

func (m *fakeMemory) ReadAt(b []byte, addr int64) (int, error) {
	if addr < fakeBase || addr-fakeBase >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(b, m.b[addr-fakeBase:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m *fakeMemory) ReadEach(addrs []uint64, size int, b []byte) (int, error) {
	for i, addr := range addrs {
		if _, err := m.ReadAt(b[i*size:][:size], int64(addr)); err != nil {
			return i, nil
		}
	}
	return len(addrs), nil
}

func (m *fakeMemory) at(addr uint64) []byte { return m.b[addr-fakeBase:] }

// place puts bytes into free memory and returns their address.
func (m *fakeMemory) place(b ...byte) uint64 {
	addr := m.free
	copy(m.at(addr), b)
	m.free += uint64(len(b)+15) &^ 15
	return addr
}

func (m *fakeMemory) text(s string) uint64 { return m.place(append([]byte(s), 0)...) }

func (m *fakeMemory) put64(addr, v uint64) { binary.LittleEndian.PutUint64(m.at(addr), v) }
func (m *fakeMemory) put32(addr, v uint64) { binary.LittleEndian.PutUint32(m.at(addr), uint32(v)) }
func (m *fakeMemory) put16(addr, v uint64) { binary.LittleEndian.PutUint16(m.at(addr), uint16(v)) }

// fakeField is a field that the VM describes.
type fakeField struct {
	name, typ string
	at        uint64
	static    bool
}

// describe writes the VM's description of itself and returns the symbols.
func (m *fakeMemory) describe(fields []fakeField, sizes map[string]uint64) map[string]uint64 {
	symbols := map[string]uint64{}
	variable := func(name string, v uint64) {
		at := m.place(make([]byte, 8)...)
		m.put64(at, v)
		symbols["gHotSpotVM"+name] = at - fakeBias
	}
	const stride = 64
	table := m.place(make([]byte, stride*(len(fields)+1))...)
	for i, f := range fields {
		at := table + uint64(i)*stride
		typ, name, _ := strings.Cut(f.name, "::")
		if rest, last, nested := strings.Cut(name, "::"); nested {
			typ, name = typ+"::"+rest, last
		}
		m.put64(at, m.text(typ))
		m.put64(at+8, m.text(name))
		m.put64(at+16, m.text(f.typ))
		if f.static {
			m.put32(at+24, 1)
			m.put64(at+40, f.at)
		} else {
			m.put64(at+32, f.at)
		}
	}
	variable("Structs", table)
	for name, at := range map[string]uint64{"TypeName": 0, "FieldName": 8, "TypeString": 16, "IsStatic": 24, "Offset": 32,
		"Address": 40} {
		variable("StructEntry"+name+"Offset", at)
	}
	variable("StructEntryArrayStride", stride)
	table = m.place(make([]byte, 16*(len(sizes)+1))...)
	at := table
	for name, size := range sizes {
		m.put64(at, m.text(name))
		m.put64(at+8, size)
		at += 16
	}
	variable("Types", table)
	variable("TypeEntryTypeNameOffset", 0)
	variable("TypeEntrySizeOffset", 8)
	variable("TypeEntryArrayStride", 16)
	return symbols
}

// fakeFields returns a layout that no version of HotSpot has.
func fakeFields(heaps, bounds, perf uint64) []fakeField {
	return []fakeField{
		{"ConstMethod::_flags", "u2", 18, false}, {"ConstMethod::_code_size", "u2", 20, false},
		{"ConstMethod::_constMethod_size", "int", 24, false}, {"ConstantPool::_source_file_name_index", "u2", 16, false},
		{"ConstantPool::_cache", "ConstantPoolCache*", 0, false},
		{"CompiledMethod::_scopes_data_begin", "address", 56, false}, {"nmethod::_scopes_pcs_offset", "int", 36, false},
		{"nmethod::_dependencies_offset", "int", 52, false}, {"nmethod::_metadata_offset", "int", 0, false},
		{"PcDesc::_pc_offset", "int", 0, false}, {"PcDesc::_scope_decode_offset", "int", 4, false},
		{"CodeCache::_heaps", "GrowableArray<CodeHeap*>*", heaps, true},
		{"CodeCache::_low_bound", "address", bounds, true}, {"CodeCache::_high_bound", "address", bounds + 8, true},
		{"GrowableArrayBase::_len", "int", 4, false}, {"GrowableArray<int>::_data", "int*", 8, false},
		{"CodeHeap::_memory", "VirtualSpace", 8, false}, {"CodeHeap::_segmap", "VirtualSpace", 64, false},
		{"CodeHeap::_log2_segment_size", "int", 128, false},
		{"VirtualSpace::_low_boundary", "char*", 0, false}, {"VirtualSpace::_high_boundary", "char*", 8, false},
		{"VirtualSpace::_low", "char*", 16, false}, {"VirtualSpace::_high", "char*", 24, false},
		{"HeapBlock::Header::_length", "uint32_t", 0, false}, {"HeapBlock::Header::_used", "bool", 4, false},
		{"CodeBlob::_name", "const char*", 8, false}, {"CodeBlob::_size", "int", 16, false},
		{"CodeBlob::_frame_size", "int", 20, false}, {"CodeBlob::_frame_complete_offset", "int16_t", 24, false},
		{"CodeBlob::_code_offset", "int", 28, false}, {"CodeBlob::_data_offset", "int", 32, false},
		{"nmethod::_method", "Method*", 40, false}, {"nmethod::_compile_id", "int", 48, false},
		{"Method::_constMethod", "ConstMethod*", 8, false}, {"ConstMethod::_constants", "ConstantPool*", 8, false},
		{"ConstMethod::_name_index", "u2", 16, false}, {"ConstantPool::_pool_holder", "InstanceKlass*", 8, false},
		{"PerfMemory::_start", "char*", perf, true}, {"PerfDataPrologue::used", "int", 4, false},
		{"PerfDataPrologue::entry_offset", "int", 8, false}, {"PerfDataPrologue::num_entries", "int", 12, false},
		{"PerfDataEntry::entry_length", "int", 4, false}, {"PerfDataEntry::name_offset", "int", 8, false},
		{"PerfDataEntry::vector_length", "int", 12, false}, {"PerfDataEntry::data_type", "jbyte", 0, false},
		{"PerfDataEntry::data_offset", "int", 16, false},
		{"Klass::_name", "Symbol*", 16, false}, {"Symbol::_length", "u2", 4, false}, {"Symbol::_body[0]", "u1", 6, false},
	}
}

var fakeSizes = map[string]uint64{"HeapBlock": 8, "ConstantPool": 24, "ConstMethod": 32, "PcDesc": 8}

// fakeVM is a VM in fake memory.
type fakeVM struct {
	*fakeMemory
	layout   *Layout
	segments uint64 // address of the segment map
	next     uint64 // start of the next block
	bounds   uint64 // address of the bounds of all heaps
	perf     uint64 // address of the pointer to performance data
	used     uint64 // address of the end of the used part of the heap
}

func newFakeVM(t testing.TB) *fakeVM {
	t.Helper()
	f := &fakeVM{fakeMemory: newFakeMemory(), next: heapBase}
	array, pointers, code := f.place(make([]byte, 16)...), f.place(make([]byte, 8)...), f.place(make([]byte, 160)...)
	heaps := f.place(make([]byte, 8)...)
	f.bounds = f.place(make([]byte, 16)...)
	f.perf = f.place(make([]byte, 8)...)
	symbols := f.describe(fakeFields(heaps, f.bounds, f.perf), fakeSizes)
	var err error
	if f.layout, err = readLayout(symbols, fakeBias, f); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f.layout, fakeBias, f); !errors.Is(err, ErrNotReady) {
		t.Errorf("before it has begun: %v", err)
	}
	f.put64(heaps, array)
	f.put32(array+4, 1)
	f.put64(array+8, pointers)
	f.put64(pointers, code)
	for i, v := range []uint64{heapBase, heapBase + heapSize, heapBase, heapBase + heapUsed} {
		f.put64(code+8+8*uint64(i), v)
	}
	if _, err := Open(f.layout, fakeBias, f); !errors.Is(err, ErrNotReady) {
		t.Errorf("without a map of segments: %v", err)
	}
	f.used = code + 8 + 3*8
	f.segments = f.place(slices.Repeat([]byte{0xff}, heapSize/segment)...)
	f.put64(code+64+16, f.segments)
	f.put32(code+128, 7)
	return f
}

// block adds a used block and returns the address of its code.
func (f *fakeVM) block(name string, frame, complete, method, id uint64, code []byte) uint64 {
	const header, blob = 8, 64
	at := f.next
	segments := (header + blob + len(code) + segment - 1) / segment
	f.put32(at, uint64(segments))
	f.at(at)[4] = 1
	f.put64(at+header+8, f.text(name))
	f.put32(at+header+20, frame)
	f.put16(at+header+24, complete)
	f.put32(at+header+28, blob)
	f.put32(at+header+32, uint64(blob+len(code)))
	f.put64(at+header+40, method)
	f.put32(at+header+48, id)
	copy(f.at(at+header+blob), code)
	for i := range segments {
		f.at(f.segments + (at-heapBase)/segment)[i] = byte(i)
	}
	f.next += uint64(segments * segment)
	return at + header + blob
}

// method makes a Method.
func (f *fakeVM) method(class, name string) uint64 {
	symbol := func(s string) uint64 {
		at := f.place(make([]byte, 6+len(s))...)
		f.put16(at+4, uint64(len(s)))
		copy(f.at(at+6), s)
		return at
	}
	klass, pool, constMethod, method := f.place(make([]byte, 24)...), f.place(make([]byte, 64)...),
		f.place(make([]byte, 64)...), f.place(make([]byte, 16)...)
	f.put64(klass+16, symbol(class))
	f.put64(pool+8, klass)
	f.put64(pool+24+8*3, symbol(name))
	f.put64(constMethod+8, pool)
	f.put16(constMethod+16, 3)
	f.put64(method+8, constMethod)
	f.put16(pool+16, 4)
	f.put64(pool+24+8*4, symbol("File.java"))
	f.put16(constMethod+18, 1)
	f.put16(constMethod+20, 20) // bytecodes
	f.put32(constMethod+24, 8)
	copy(f.at(constMethod+32+20), []byte{0<<3 | 7, 5<<3 | 2, 0xff, 6, 9, 0}) // lines 7 at 0, 9 at 5, 4 at 8
	return method
}

// TestBoundsOfAllHeaps: a VM that has set up only the first of its heaps has the bounds of all heaps.
func TestBoundsOfAllHeaps(t *testing.T) {
	f := newFakeVM(t)
	f.put64(f.bounds, heapBase-heapSize)
	f.put64(f.bounds+8, heapBase+2*heapSize)
	vm, err := Open(f.layout, fakeBias, f)
	if err != nil {
		t.Fatal(err)
	}
	if low, high := vm.Bounds(); low != heapBase-heapSize || high != heapBase+2*heapSize {
		t.Errorf("from %#x to %#x", low, high)
	}
}

const pageShift = 13

// TestGrownHeap: a block that extends past the old end of the heap, or whose header does, is found after the heap has
// grown, although its page ends at the old end.
func TestGrownHeap(t *testing.T) {
	code := assemble(t, "55\n48 83 ec 30\n90\n48 83 c4 30\n5d\nc3")
	const end = heapBase + 1<<pageShift
	for _, before := range []uint64{segment, 2 * segment} { // the end
		f := newFakeVM(t)
		f.put64(f.used, end)
		f.block("StubRoutines (1)", 1<<32-1, 1<<16-1, 0, 0, make([]byte, 1<<pageShift-before-128))
		if f.next != end-before {
			t.Fatalf("the block begins at %#x", f.next)
		}
		vm, err := Open(f.layout, fakeBias, f)
		if err != nil {
			t.Fatal(err)
		}
		f.put64(f.used, end+1<<pageShift)
		at := f.block("nmethod", 8, 5, f.method("java/lang/Object", "<init>"), 1, append(code, make([]byte, 3*segment)...))
		if p, err := vm.Page(0, pageShift, heapBase, nil); err != nil || p.Find(at) == nil {
			t.Errorf("%d bytes before the former end: not found, %v", before, err)
		}
	}
}

func TestPage(t *testing.T) {
	f := newFakeVM(t)
	code := assemble(t, "55\n48 83 ec 30\n90\n48 83 c4 30\n5d\nc3")
	one := f.block("nmethod", 8, 5, f.method("java/lang/Object", "<init>"), 1, code)
	f.block("StubRoutines (1)", 1<<32-1, 1<<16-1, 0, 0, make([]byte, heapBase+1<<pageShift+0x100-f.next))
	vm, err := Open(f.layout, fakeBias, f)
	if err != nil {
		t.Fatal(err)
	}
	if low, high := vm.Bounds(); low != heapBase || high != heapBase+heapSize {
		t.Errorf("from %#x to %#x", low, high)
	}
	var text []string
	pages := map[uint64]*Page{}
	for n := range uint64(heapSize >> pageShift) {
		p, err := vm.Page(n, pageShift, heapBase, nil)
		if err != nil {
			t.Fatal(err)
		}
		pages[n] = p
		for _, c := range p.Code {
			text = append(text, fmt.Sprintf("%d: %s", n, c.Name))
		}
	}
	want := []string{"0: java.lang.Object.<init>", "0: StubRoutines (1)", "1: StubRoutines (1)"}
	if !slices.Equal(text, want) {
		t.Errorf("code is %q, want %q", text, want)
	}
	for addr, want := range map[uint64]string{
		one - 1: "not known yet", one: "cfa=sp+8", one + 5: "cfa=sp+64 fp=*(cfa-16)", one + 0x0b: "cfa=sp+8",
		one + uint64(len(code)): "not known yet",
		heapBase + 1<<pageShift: "cfa=sp+8", heapBase + heapUsed - 1: "not known yet", heapBase + heapUsed: "not known yet",
	} {
		vaddr := addr - heapBase
		if got := pages[vaddr>>pageShift].Rows.Rule(vaddr).String(); got != want {
			t.Errorf("%#x: %s, want %s", vaddr, got, want)
		}
	}
	if c := pages[0].Find(one + 3); c == nil || c.Name != "java.lang.Object.<init>" {
		t.Errorf("found %+v", c)
	}
	if c := pages[0].Find(one - 1); c != nil {
		t.Errorf("found %+v before the code", c)
	}
	checkChanges(t, f, vm, pages, one)
}

// checkChanges changes the memory that pages describe.
func checkChanges(t *testing.T, f *fakeVM, vm *VM, pages map[uint64]*Page, one uint64) {
	if changed, err := vm.Changed(pages); len(changed) > 0 || err != nil {
		t.Errorf("pages %d have changed, %v", changed, err)
	}
	again, err := vm.Page(0, pageShift, heapBase, pages[0])
	if err != nil || again.Code[0] != pages[0].Code[0] {
		t.Errorf("the same code is not taken over: %v", err)
	}
	f.put32(one-64+48, 2) // compiled again, in the same place
	if changed, _ := vm.Changed(pages); !slices.Equal(changed, []uint64{0}) {
		t.Errorf("pages %d have changed, want the first", changed)
	}
	if again, err = vm.Page(0, pageShift, heapBase, pages[0]); err != nil || again.Code[0] == pages[0].Code[0] ||
		again.Code[1] != pages[0].Code[1] {
		t.Errorf("the code that has changed is not read again, or other code is: %v", err)
	}
	stub := uint64(heapBase + 1<<pageShift + 0x80) // made after its page was built
	copy(f.at(stub), assemble(t, "48 83 ec 30\n90\n48 83 c4 30\nc3"))
	if changed, _ := vm.Changed(map[uint64]*Page{1: pages[1]}); !slices.Equal(changed, []uint64{1}) {
		t.Errorf("pages %d have changed, want the second", changed)
	}
	if again, err = vm.Page(1, pageShift, heapBase, pages[1]); err != nil ||
		again.Rows.Rule(stub+4-heapBase).String() != "cfa=sp+56" {
		t.Errorf("%s in a stub, %v", again.Rows.Rule(stub+4-heapBase), err)
	}
	late := map[uint64]*Page{1: again}
	for range 10 * rareLooks {
		if changed, _ := vm.Changed(late); len(changed) > 0 {
			t.Fatalf("pages %d have changed, want none", changed)
		}
	}
	f.at(stub)[4] = 0xcc
	found := 0
	for range 2 * rareLooks {
		changed, _ := vm.Changed(late)
		found += len(changed)
	}
	if found == 0 {
		t.Error("a stub that is written much later is not read again")
	}
	f.at(heapBase)[4] = 0 // freed
	if again, err = vm.Page(0, pageShift, heapBase, nil); err != nil || len(again.Code) != 1 ||
		again.Rows.Rule(one-heapBase).CFA != unwind.CFAAbsent {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestNotHotSpot reads libraries that are named libjvm.
func TestNotHotSpot(t *testing.T) {
	m := newFakeMemory()
	if _, err := readLayout(map[string]uint64{}, fakeBias, m); !errors.Is(err, ErrNotHotSpot) {
		t.Errorf("without symbols: %v", err)
	}
	fields := fakeFields(fakeBase, fakeBase, fakeBase)
	if _, err := readLayout(m.describe(fields[:len(fields)-1], fakeSizes), fakeBias, m); err == nil ||
		!strings.Contains(err.Error(), "Symbol::_body") {
		t.Errorf("without a field: %v", err)
	}
}

// TestNotRelocated: a VM whose library is not fully relocated by the dynamic loader has link-time addresses in its
// description, and a later attempt succeeds.
func TestNotRelocated(t *testing.T) {
	const linkTime = fakeBias - 0x100
	m := newFakeMemory()
	fields := fakeFields(fakeBase, fakeBase, fakeBase)
	static := slices.IndexFunc(fields, func(f fakeField) bool { return f.static })
	symbols := m.describe(fields, fakeSizes)
	if _, err := readLayout(symbols, fakeBias, m); err != nil {
		t.Fatal(err)
	}
	pointer := func(name string) uint64 { return symbols["gHotSpotVM"+name] + fakeBias }
	table := func(name string) uint64 { return binary.LittleEndian.Uint64(m.at(pointer(name))) }
	for what, at := range map[string]uint64{
		"table of fields": pointer("Structs"), "table of types": pointer("Types"),
		"class of a field": table("Structs") + 64, "name of a field": table("Structs") + 64 + 8,
		"type of a field": table("Structs") + 64 + 16, "static field": table("Structs") + 64*uint64(static) + 40,
		"name of a type": table("Types") + 16,
	} {
		was := binary.LittleEndian.Uint64(m.at(at))
		m.put64(at, linkTime)
		if _, err := readLayout(symbols, fakeBias, m); !errors.Is(err, language.ErrNotReady) {
			t.Errorf("%s at its link-time address: %v", what, err)
		}
		m.put64(at, was)
	}
}

// FuzzVM changes the memory of a VM in some places.
func FuzzVM(f *testing.F) {
	f.Add([]byte{0, 0, 3, 4, 5, 6, 1, 0x80, 7}, uint64(0))
	f.Fuzz(func(t *testing.T, changes []byte, seed uint64) {
		vm := newFakeVM(t)
		at := vm.block("nmethod", 8, 5, vm.method("a/B", "c"), 1, assemble(t, "55\n48 83 ec 30\n90\nc3"))
		vm.inline(at, vm.method("a/B", "c"), vm.method("d/E", "f"))
		vm.block("Interpreter", 0, 0, 0, 0, make([]byte, 700))
		for ; len(changes) >= 3; changes = changes[3:] {
			at := (seed + uint64(changes[0])<<8 + uint64(changes[1])) % uint64(len(vm.b))
			if seed%2 == 0 { // an address in the heap
				at = heapBase - fakeBase + at%512
			}
			vm.b[at] = changes[2]
		}
		opened, err := Open(vm.layout, fakeBias, vm)
		if err != nil {
			return
		}
		pages := map[uint64]*Page{}
		low, high := opened.Bounds()
		for n := range min((high-low)>>pageShift, 8) {
			p, err := opened.Page(n, pageShift, low, nil)
			if err != nil {
				continue
			}
			for i := 1; i < len(p.Rows.Rows); i++ {
				if p.Rows.Rows[i-1].Off >= p.Rows.Rows[i].Off {
					t.Fatalf("rows do not ascend: %+v", p.Rows.Rows)
				}
			}
			pages[n] = p
		}
		opened.Changed(pages)
		code := newCodeCache(opened, &Remembered{})
		code.Page((at-code.base)>>pageShift, pageShift)
		for addr := at - 4; addr < at+16; addr++ {
			lines := code.Lines(code.Identify(addr-code.base, clock.Monotonic()))
			if len(lines) > maxInlined {
				t.Fatalf("%d methods at %#x", len(lines), addr)
			}
			for _, l := range lines {
				if len(l.Function)+len(l.File) > 16*maxSymbol || l.Line < 0 || l.StartLine < 0 {
					t.Fatalf("%+v at %#x", l, addr)
				}
			}
		}
	})
}
