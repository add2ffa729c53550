package jvm

import "strings"

// name names a block: a method by its class, other code by HotSpot's name.
func (vm *VM) name(b *block) string {
	if b.method != 0 {
		m := memory{r: vm.view}
		if name := vm.methodName(&m, b.method); name.function != "" {
			return name.function
		}
	}
	return vm.readText(b.name)
}

// methodName is the name and source file of a Method.
type methodName struct {
	function string // "package.Class.method", "" if it cannot be read
	file     string // "Class.java", "" if unknown
}

// methodName reads the name of a Method.
func (vm *VM) methodName(m *memory, at uint64) (name methodName) {
	l := &vm.layout.names
	constMethod := m.u64(at + l.constMethod)
	pool := m.u64(constMethod + l.constants)
	symbolAt := func(index uint64) string { return vm.symbol(m, m.u64(pool+l.poolBytes+wordSize*index)) }
	method := symbolAt(uint64(m.u16(constMethod + l.nameIndex)))
	class := m.u64(pool + l.holder)
	className := vm.symbol(m, m.u64(class+l.className))
	if m.err != nil || method == "" {
		return methodName{}
	}
	name.function = externalNames.Replace(className) + "." + method
	source := uint16(0)
	switch {
	case l.sourceInPool.size != 0:
		source = m.u16(pool + l.sourceInPool.at)
	case l.sourceInClass.size != 0:
		source = m.u16(class + l.sourceInClass.at)
	}
	if source != 0 {
		name.file = symbolAt(uint64(source))
	}
	return name
}

// externalNames converts class names to Java's form; the VM adds an address to the names of hidden classes.
var externalNames = strings.NewReplacer("/", ".", "+0x", "/0x")

// maxSymbol bounds names of classes, methods and files.
const maxSymbol = 1 << 10

// symbol returns the text of a Symbol.
func (vm *VM) symbol(m *memory, at uint64) string {
	l := &vm.layout.names
	b := make([]byte, min(m.u16(at+l.length), maxSymbol))
	m.readBytes(at+l.body, b)
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
