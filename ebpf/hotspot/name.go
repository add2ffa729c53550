package hotspot

import "strings"

// name names a block: a method by its class, or what HotSpot calls it.
func (vm *VM) name(b *block) string {
	if b.method != 0 {
		if name := vm.method(b.method); name != "" {
			return name
		}
	}
	return vm.text(b.name)
}

// method returns "package.Class.method" of a Method, "" if it cannot be read.
func (vm *VM) method(at uint64) string {
	l := &vm.layout.names
	m := memory{r: vm.view}
	constMethod := m.u64(at + l.constMethod)
	pool := m.u64(constMethod + l.constants)
	index := m.u16(constMethod + l.nameIndex)
	method := vm.symbol(&m, m.u64(pool+l.poolBytes+8*uint64(index)))
	class := vm.symbol(&m, m.u64(m.u64(pool+l.holder)+l.className))
	if m.err != nil || method == "" {
		return ""
	}
	return strings.ReplaceAll(class, "/", ".") + "." + method
}

// symbol returns the text of a Symbol.
func (vm *VM) symbol(m *memory, at uint64) string {
	l := &vm.layout.names
	b := make([]byte, m.u16(at+l.length))
	m.read(at+l.body, b)
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
