package gopclntab

// A function's tree of inlined calls is an array of records, one for each call that the compiler
// replaced by the body of the called function. A value table maps each instruction to the record of
// its innermost call, -1 if none. The record names the called function and an instruction of the
// caller. The file and line of that instruction are the place of the call, and it may belong to
// another inlined call (runtime.inlinedCall).
const (
	tableInlined    = 2 // index of the value table: PCDATA_InlTreeIndex, since Go 1.13
	dataInlined     = 3 // index of the reference to data: FUNCDATA_InlTree, since Go 1.16
	dataInlinedGo12 = 4 // the same before Go 1.16
)

// inlinedLayout is the layout of a record.
type inlinedLayout struct {
	data, size, name, parent int
	line                     int // line of the called function's declaration; 0 if not stored
}

// inlinedCalls returns the layout of the records. ok is false if it is unknown.
func (t *Table) inlinedCalls() (l inlinedLayout, ok bool) {
	if t.version >= go120 {
		return inlinedLayout{data: dataInlined, size: 16, name: 4, parent: 8, line: 12}, true
	}
	if t.version == go12 {
		// Go 1.13 is the first version that writes this section, and it uses these numbers.
		_, _, ok := t.image.SectionRange(".go.buildinfo")
		return inlinedLayout{data: dataInlinedGo12, size: 20, name: 12, parent: 16}, ok
	}
	return inlinedLayout{data: dataInlined, size: 20, name: 12, parent: 16}, true
}

// inlined returns the inlined functions at f's instruction at pc, the innermost first, and the
// instruction whose line is the current line in f itself.
func (r *Reader) inlined(f *Func, pc uint64) (frames []Frame, at uint64, err error) {
	layout, ok := r.t.inlinedCalls()
	if !ok || f.tables <= tableInlined || int(f.datas) <= layout.data {
		return nil, pc, nil
	}
	table, err := r.tableOffset(f, tableInlined)
	if err != nil || table == 0 {
		return nil, pc, err
	}
	tree, err := r.dataAddress(f, layout.data)
	if err != nil || tree == 0 {
		return nil, pc, err
	}
	for range MaxInlined {
		index, ok, err := r.value(f, table, pc)
		if err != nil {
			return frames, pc, err
		}
		if !ok || index < 0 {
			return frames, pc, nil
		}
		b, err := r.data.getBytes(tree+uint64(index)*uint64(layout.size), layout.size)
		if err != nil {
			return frames, pc, err
		}
		call := Func{Entry: f.Entry, name: r.t.order.Uint32(b[layout.name:])}
		parent := f.Entry + uint64(r.t.order.Uint32(b[layout.parent:]))
		frame := Frame{}
		if layout.line != 0 {
			frame.StartLine = max(int(int32(r.t.order.Uint32(b[layout.line:]))), 0)
		}
		if frame.Function, err = r.Name(&call); err != nil {
			return frames, pc, err
		}
		if frame.File, frame.Line, err = r.lineAt(f, pc); err != nil {
			return frames, pc, err
		}
		if frames = append(frames, frame); parent >= f.End {
			return frames, pc, ErrInvalid
		}
		pc = parent
	}
	return frames, pc, ErrInvalid
}

// tableOffset returns the offset of f's value table number i.
func (r *Reader) tableOffset(f *Func, i int) (uint32, error) {
	b, err := r.funcs.getBytes(f.at+uint64(f.tail+4*i), 4)
	if err != nil {
		return 0, err
	}
	return r.t.order.Uint32(b), nil
}

// dataAddress returns the address of f's data number i, 0 if there is none.
func (r *Reader) dataAddress(f *Func, i int) (uint64, error) {
	t := r.t
	at := f.at + uint64(f.tail) + 4*uint64(f.tables)
	if t.version < go118 { // pointers, aligned
		at = (at+uint64(t.ptr)-1)&^uint64(t.ptr-1) + uint64(i*t.ptr)
		b, err := r.funcs.getBytes(at, t.ptr)
		if err != nil {
			return 0, err
		}
		return t.pointer(b), nil
	}
	b, err := r.funcs.getBytes(at+4*uint64(i), 4)
	if err != nil {
		return 0, err
	}
	offset := t.order.Uint32(b)
	base := t.functionData()
	if offset == 1<<32-1 || base == 0 {
		return 0, nil
	}
	return base + uint64(offset), nil
}
