package v8

import "fmt"

// function is the data of a SharedFunctionInfo, which stands for a function's source text.
type function struct {
	name     string  // the same name as in V8's own profiler
	start    int     // first character in the script, absent if unknown
	script   *script // nil if unknown
	bytecode tagged  // 0 if there is none now
}

// anonymous is V8's name for functions without a name.
const anonymous = "(anonymous)"

// maxName bounds the characters of a function's name.
const maxName = 256

// function reads a SharedFunctionInfo.
func (m *reader) function(v tagged) *function {
	b := m.typed(v, max(m.l.SharedData, m.l.SharedName, m.l.SharedScript)+8, m.l.TypeShared)
	f := &function{bytecode: m.bytecodeOf(b.wordAt(m.l.SharedData))}
	if f.name, f.start = m.scope(b.wordAt(m.l.SharedName)); f.name == "" {
		f.name = anonymous
	}
	if m.err != nil {
		return nil
	}
	if at := b.wordAt(m.l.SharedScript); at.object() {
		f.script = m.script(at)
		m.err = nil // the function has no script, or a debugger's wrapper
	}
	return f
}

// bytecodeOf returns the bytecode in a function's data, or 0 if there is none. For compiled code it is the bytecode
// that the code was compiled from.
func (m *reader) bytecodeOf(data tagged) tagged {
	for range 3 {
		if !data.object() || m.err != nil {
			return 0
		}
		b := m.object(data, max(m.l.CodeDeopt, m.l.InterpreterBytecode)+8)
		switch typ := m.typeOf(b); {
		case m.err != nil:
			return 0
		case typ == m.l.TypeBytecode:
			return data
		case typ == m.l.TypeInterpreter:
			data = b.wordAt(m.l.InterpreterBytecode)
		case typ == m.l.TypeCode:
			data = b.wordAt(m.l.CodeDeopt)
		default:
			return 0
		}
	}
	return 0
}

// Words of a ScopeInfo, and bits of its flags (V8, src/objects/scope-info.tq).
const (
	scopeFlags  = 1
	scopeLocals = 3

	scopeTypeMask     = 15
	scopeSavedClass   = 1 << 10
	scopeVariableMask = 3 << 12
	scopeInferred     = 1 << 14

	maxInlinedNames = 75 // with more locals, the names are in a table, which is one word
	maxLocals       = 1 << 16
	maxScope        = 4 // words after the locals: a variable of two words, an inferred name, the start
)

// scope returns the name of a function from the word that names it, which is a string or a ScopeInfo, and its first
// character, or absent.
func (m *reader) scope(v tagged) (name string, start int) {
	if !v.object() {
		return "", absent
	}
	head := m.object(v, 8*(m.l.ScopeFirst+2))
	switch typ := m.typeOf(head); {
	case m.err != nil:
		return "", absent
	case typ < m.l.TypeNonString:
		return m.readText(v, maxName), absent
	case typ != m.l.TypeScope:
		m.failWith(fmt.Errorf("scope 0x%x has type %d: %w", uint64(v), typ, errImplausible))
		return "", absent
	}
	flags := uint32(head.wordAt(8*scopeFlags) >> m.l.ScopeFlags)
	locals, ok := head.wordAt(8 * scopeLocals).smi()
	if !ok || locals < 0 || locals > maxLocals {
		m.failWith(fmt.Errorf("scope of %d variables: %w", locals, errImplausible))
		return "", absent
	}
	at := m.l.ScopeFirst
	if int(flags&scopeTypeMask) == m.l.ScopeModule {
		at++
	}
	if locals < maxInlinedNames {
		at += locals
	} else {
		at++
	}
	at += locals // a word of information for each local
	if flags&scopeSavedClass != 0 {
		at++
	}
	rest := make(body, 8*maxScope)
	m.readSome(uint64(v)&^tagMask+8*uint64(at), rest, 0)
	next := func() (w tagged) {
		w, rest = rest.wordAt(0), rest[8:]
		return w
	}
	var own, inferred tagged
	if flags&scopeVariableMask != 0 {
		own = next()
		next() // the location of the variable
	}
	if flags&scopeInferred != 0 {
		inferred = next()
	}
	from := next()
	if m.l.ScopePositions != absent {
		from = head.wordAt(8 * m.l.ScopePositions)
	}
	if start, ok = from.smi(); !ok {
		start = absent
	}
	for _, w := range []tagged{own, inferred} {
		if name == "" && m.isString(w) {
			name = m.readText(w, maxName)
		}
	}
	return name, start
}
