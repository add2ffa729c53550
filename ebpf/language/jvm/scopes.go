package jvm

import (
	"cmp"
	"slices"

	"github.com/headwater/headwater/ebpf/language"
)

// debugLayout is the layout data needed to find the methods at a place in compiled code. The location of this data
// changed twice: up to JDK 22 it follows the code, since JDK 23 it is in separate memory, and since JDK 25 the pointers
// to methods are in a third memory block.
type debugLayout struct {
	known         bool   // whether the VM describes it
	scopesPointer member // of the scopes; JDK 9 to 22
	scopes        member // their offset; JDK 8, and since JDK 23
	places, end   member // offsets of the table of places, and of its end
	data          member // offset of the pointers; JDK 23 and 24 count from here
	methods       member // offset of the pointers to methods; up to JDK 24

	immutable, immutableSize member // memory with scopes and places; since JDK 23
	mutable, mutableSize     member // memory with relocations, followed by the pointers to methods; since JDK 25
	relocations              member // size of the relocations

	place       uint64 // size of an entry of the table
	code, scope member // fields of an entry: offset in the code, and of the scope
	bytes       uint64 // size of the part of an nmethod that contains all these fields
}

// debug looks up the location of the VM's data about places in compiled code.
func (r *resolver) debug() (d debugLayout) {
	d.place, d.code = r.l.sizes["PcDesc"], r.member("PcDesc::_pc_offset")
	d.scope = r.member("PcDesc::_scope_decode_offset")
	d.places = r.member("nmethod::_scopes_pcs_offset")
	d.scopesPointer = r.optional("CompiledMethod::_scopes_data_begin")
	if d.scopesPointer == (member{}) {
		d.scopes = r.member("nmethod::_scopes_data_offset")
	}
	if d.immutable = r.optional("nmethod::_immutable_data"); d.immutable == (member{}) {
		d.end = r.member("nmethod::_dependencies_offset")
	} else {
		d.immutableSize, d.end = r.member("nmethod::_immutable_data_size"), d.scopes
	}
	if d.mutable = r.optional("CodeBlob::_mutable_data"); d.mutable == (member{}) {
		d.methods, d.data = r.member("nmethod::_metadata_offset"), r.member("CodeBlob::_data_offset")
	} else {
		d.mutableSize = r.member("CodeBlob::_mutable_data_size")
		d.relocations = r.member("CodeBlob::_relocation_size")
	}
	d.known = r.err == nil && d.place >= 8 && d.place <= maxObject
	for _, m := range []member{
		d.scopesPointer, d.scopes, d.places, d.end, d.data, d.methods, d.immutable, d.immutableSize, d.mutable,
		d.mutableSize, d.relocations,
	} {
		d.bytes = max(d.bytes, m.at+m.size)
	}
	return d
}

// debugInfo is the location of the VM's data about the places in one piece of code.
type debugInfo struct {
	places, placesEnd   uint64 // ascending by offset in the code
	scopes, scopesEnd   uint64
	methods, methodsEnd uint64 // pointers
}

// debugInfo reads the location of the VM's data about a piece of code.
func (vm *VM) debugInfo(m *memory, c *Code) (i debugInfo) {
	l := &vm.layout.debug
	at := c.block.start + vm.layout.blobs.header
	b := make([]byte, l.bytes)
	m.readBytes(at, b)
	base := at
	if l.immutable.size != 0 {
		base = uint64(l.immutable.valueIn(b))
		i.scopesEnd = base + uint64(l.immutableSize.valueIn(b))
	}
	i.places, i.placesEnd = base+uint64(l.places.valueIn(b)), base+uint64(l.end.valueIn(b))
	if l.scopesPointer.size != 0 {
		i.scopes = uint64(l.scopesPointer.valueIn(b))
	} else {
		i.scopes = base + uint64(l.scopes.valueIn(b))
	}
	if l.immutable.size == 0 {
		i.scopesEnd = i.places
	}
	switch {
	case l.mutable.size != 0:
		i.methods = uint64(l.mutable.valueIn(b)) + uint64(l.relocations.valueIn(b))
		i.methodsEnd = uint64(l.mutable.valueIn(b)) + uint64(l.mutableSize.valueIn(b))
	case l.immutable.size != 0:
		i.methods, i.methodsEnd = at+uint64(l.data.valueIn(b)+l.methods.valueIn(b)), c.block.end
	default:
		i.methods, i.methodsEnd = at+uint64(l.methods.valueIn(b)), i.scopes
	}
	if m.err == nil && (i.placesEnd < i.places || i.scopesEnd < i.scopes || i.methodsEnd < i.methods ||
		i.placesEnd-i.places > maxDebugInfo || i.scopesEnd-i.scopes > maxDebugInfo) {
		m.err = errImplausible
	}
	return i
}

// maxDebugInfo bounds the VM's data about one piece of code; its own limit for a method's code is far lower.
const maxDebugInfo = 1 << 30

// noScope is the scope of places for which the VM knows only the method.
const noScope = 0

// entryScope stands for the instructions that set up the frame: they belong to the method itself.
const entryScope = -1

// busyScope stands for a place that could not be read yet.
const busyScope = -2

// scopeAt returns the scope of the instruction, or of the call in progress, at an address. It is the scope of the first
// place after the address, because the place of a call is its return address. If there is none, it is the scope of the
// place at the address, as in the VM itself for signals. Between two places the result may be inexact, unless the VM
// runs with DebugNonSafepoints.
func (vm *VM) scopeAt(m *memory, c *Code, i debugInfo, addr uint64) int64 {
	l := &vm.layout.debug
	offset := int64(addr - c.block.code)
	if offset < c.block.complete {
		return entryScope
	}
	count := (i.placesEnd - i.places) / l.place
	b := make([]byte, l.place)
	place := func(n uint64) (at, scope int64) {
		if n >= count {
			return 0, noScope
		}
		m.readBytes(i.places+n*l.place, b)
		return l.code.valueIn(b), max(l.scope.valueIn(b), noScope)
	}
	low, high := uint64(0), count
	for low < high {
		mid := (low + high) / 2
		if at, _ := place(mid); at > offset {
			high = mid
		} else {
			low = mid + 1
		}
	}
	_, scope := place(low)
	if scope == noScope { // the last place is at the end of the code
		if at, last := place(low - 1); at == offset {
			scope = last
		}
	}
	return scope
}

// maxInlined bounds the depth of inlined calls at one place: the VM's own limits are below 120.
const maxInlined = 256

// scopeBytes is the maximum size of the start of a scope: three numbers.
const scopeBytes = 3 * unsigned5Bytes

// lines returns the methods of a scope, the innermost first.
func (vm *VM) lines(m *memory, i debugInfo, scope int64, names map[uint64]methodName) (lines []language.Line) {
	for n := 0; n < maxInlined && scope > 0 && m.err == nil; n++ {
		if uint64(scope) >= i.scopesEnd-i.scopes {
			m.err = errImplausible
			break
		}
		at := i.scopes + uint64(scope)
		b := make([]byte, min(scopeBytes, i.scopesEnd-at))
		m.readBytes(at, b)
		var numbers [3]uint32 // the caller's scope, the method, and the position in it
		for k := range numbers {
			var size int
			if numbers[k], size = vm.layout.unsigned5(b); size == 0 && m.err == nil {
				m.err = errImplausible
			}
			b = b[size:]
		}
		caller, method, bci := int64(numbers[0]), uint64(numbers[1]), int(int32(numbers[2]))-1
		if method == 0 || method > (i.methodsEnd-i.methods)/wordSize {
			m.err = errImplausible
			break
		}
		lines = append(lines, vm.lineOf(m, m.u64(i.methods+wordSize*(method-1)), bci, names))
		scope = caller
	}
	return lines
}

// lineOf returns a method, and the line of one of its bytecodes.
func (vm *VM) lineOf(m *memory, method uint64, bci int, names map[uint64]methodName) language.Line {
	name, known := names[method]
	if !known {
		if name = vm.methodName(m, method); name.function != "" {
			names[method] = name
		}
	}
	out := language.Line{Function: name.function, File: name.file}
	if out.Function == "" && m.err == nil {
		m.err = errImplausible
	}
	out.StartLine, out.Line = vm.lineNumbers(m, method, bci)
	return out
}

// unsigned5Bytes is the maximum size of a number in HotSpot's UNSIGNED5 coding.
const unsigned5Bytes = 5

// unsigned5 reads a number in UNSIGNED5 coding: base-64 digits, lowest first. The last digit is the first byte below
// 192, or the fifth byte. Since JDK 20 no byte is zero. size is 0 if there is no number.
func (l *Layout) unsigned5(b []byte) (v uint32, size int) {
	high := 256 - 64
	for i := range min(len(b), unsigned5Bytes) {
		if b[i] < l.excluded {
			return 0, 0
		}
		v += uint32(b[i]-l.excluded) << (6 * i)
		if int(b[i]) < high || i == unsigned5Bytes-1 {
			return v, i + 1
		}
	}
	return 0, 0
}

// lineNumbers returns the first line of a method, and the line of one of its bytecodes; 0 if unknown.
func (vm *VM) lineNumbers(m *memory, method uint64, bci int) (start, line int) {
	if bci == atEntry {
		bci = 0
	}
	return vm.layout.lineAt(vm.lineTable(m, method), bci)
}

// lineTable returns the table of a method's lines, possibly followed by other data, or nil if the method has no table.
func (vm *VM) lineTable(m *memory, method uint64) []byte {
	l := &vm.layout.names
	if l.constMethodBytes == 0 {
		return nil
	}
	at := m.u64(method + l.constMethod)
	b := make([]byte, l.constMethodBytes)
	m.readBytes(at, b)
	size := uint64(uint16(l.codeSize.valueIn(b)))
	table, end := at+l.constMethodBytes+size, at+wordSize*uint64(uint32(l.constMethodSize.valueIn(b)))
	if m.err != nil || l.flags.valueIn(b)&hasLines == 0 || table >= end {
		return nil
	}
	entries := make([]byte, min(end-table, maxLines))
	m.readBytes(table, entries)
	return entries
}

const (
	hasLines = 1       // in a method's flags: a table of lines follows its bytecodes
	maxLines = 1 << 16 // maximum size of that table in bytes
	atEntry  = -1      // the bytecode index before the first one
	nowhere  = -2      // not at any bytecode
)

// eachLine calls yield for the entries of a table of lines until yield returns false. An entry is the line from a
// bytecode index on.
func (l *Layout) eachLine(table []byte, yield func(at, line int) bool) {
	const endOfTable, escape = 0, 0xff
	at, line := 0, 0
	for len(table) > 0 && table[0] != endOfTable {
		b := table[0]
		table = table[1:]
		if b != escape {
			at, line = at+int(b>>3), line+int(b&7)
		} else {
			for _, number := range []*int{&at, &line} {
				v, size := l.unsigned5(table)
				if size == 0 {
					return
				}
				*number += int(int32(v>>1) ^ -int32(v&1))
				table = table[size:]
			}
		}
		if line < 0 || line > maxLine || !yield(at, line) {
			return
		}
	}
}

// sortLines converts the lines of a table to a language.Function's Table.
func (l *Layout) sortLines(table []byte) (sorted []byte) {
	type entry struct{ at, line int }
	var all []entry
	l.eachLine(table, func(at, line int) bool {
		if at >= 0 {
			all = append(all, entry{at, line})
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	for _, e := range all {
		sorted = language.AppendLine(sorted, uint64(e.at), e.line)
	}
	return sorted
}

// lineAt returns the first line of a table, and the line of a bytecode, like Method::line_number_from_bci.
func (l *Layout) lineAt(table []byte, bci int) (start, line int) {
	best := 0
	l.eachLine(table, func(at, now int) bool {
		if start == 0 {
			start = now
		}
		if at == bci {
			line = now
			return false
		}
		if at < bci && at >= best {
			best, line = at, now
		}
		return true
	})
	return start, line
}

// maxLine is the last line that the format of class files can state.
const maxLine = 1<<16 - 1

// sameBlock reports whether a piece of code still exists. If so, all data read since it was found is valid: the VM
// frees the code's data only together with the code. It bypasses the cache of m, and leaves the error in m.
func (vm *VM) sameBlock(m *memory, c *Code) bool {
	l := &vm.layout.blobs
	m.r = vm.memory
	b := make([]byte, l.bytes)
	m.readBytes(c.block.start, b)
	return m.err == nil && l.blockUsed.valueIn(b) != 0 && vm.parse(b, c.block.start, c.block.shift) == c.block
}
