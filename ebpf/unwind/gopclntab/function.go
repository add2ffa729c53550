package gopclntab

import (
	"bytes"
	"fmt"
	"strings"
)

// Flags are declarations about a function by its assembly or the compiler.
type Flags uint8

// The flags (internal/abi.FuncFlag).
const (
	TopFrame Flags = 1 << iota // the outermost frame of its stack
	SPWrite                    // changes the stack pointer in a way that SPDeltas does not cover
	Asm                        // written in assembly
)

// Func is one function of a table.
type Func struct {
	Entry uint64 // ELF virtual address of the first instruction
	End   uint64 // start of the next function
	// Flags is complete if HasFlags is set, since Go 1.18. Go 1.17 has flags without Asm.
	Flags    Flags
	HasFlags bool

	at     uint64 // address of its record
	name   uint32 // offset of its name
	pcsp   uint32 // offset of its table of stack pointer deltas; 0 if none
	pcfile uint32 // offset of its table of files; 0 if none
	pcline uint32 // offset of its table of lines; 0 if none
	unit   uint32 // first entry of its compilation unit in the table's units, since Go 1.16
	line   int32  // line of its declaration, since Go 1.20

	tables uint32 // number of offsets of further value tables, which follow the record
	tail   int    // bytes between at and these offsets
	datas  uint8  // number of references to data, which follow the offsets; 0 before Go 1.12
}

// Offsets in the record of a function, after the entry. The 4-byte words are the offset of the
// name, the size of arguments, deferreturn or frame size, the offsets of the value tables for sp,
// file and line, and the number of further value tables. Go 1.16 added the compilation unit, Go
// 1.20 the line of the declaration. The last four bytes contain funcID since Go 1.12, and flags
// since Go 1.17; Go 1.16 has the same layout with zero flags.
const (
	offName    = 0
	offPCSP    = 12
	offPCFile  = 16
	offPCLine  = 20
	offTables  = 24
	offUnit    = 28 // since Go 1.16
	offLine    = 32 // since Go 1.20
	offFuncID  = 28 // before Go 1.16; funcID, flags, a zero byte, number of references to data
	recordSize = 40 // maximum bytes after the entry
)

// funcIDOffset returns the offset of the last four bytes, after the entry.
func (t *Table) funcIDOffset() int {
	switch {
	case t.version >= go120:
		return offFuncID + 8
	case t.version >= go116:
		return offFuncID + 4
	}
	return offFuncID
}

// describe fills in f from the record at offset off.
func (r *Reader) describe(f *Func, off uint64) error {
	t := r.t
	if off > t.funcs.size()+(t.funcs.start-t.textBase()) {
		return ErrInvalid
	}
	f.at = t.textBase() + off
	b, err := r.funcs.someBytes(f.at, t.field()+recordSize)
	if err != nil {
		return err
	}
	if len(b) < t.field()+offPCSP+4 {
		return ErrInvalid
	}
	b = b[t.field():]
	f.name, f.pcsp = t.order.Uint32(b[offName:]), t.order.Uint32(b[offPCSP:])
	last := t.funcIDOffset()
	if len(b) < last+4 {
		return nil // the record of the last function may be cut off
	}
	f.pcfile, f.pcline = t.order.Uint32(b[offPCFile:]), t.order.Uint32(b[offPCLine:])
	f.tables, f.tail = t.order.Uint32(b[offTables:]), t.field()+last+4
	f.datas = b[last+3]
	if t.version >= go116 {
		f.unit = t.order.Uint32(b[offUnit:])
		f.Flags, f.HasFlags = Flags(b[last+1]), t.version >= go118
	}
	if t.version >= go120 {
		f.line = int32(t.order.Uint32(b[offLine:]))
	}
	return nil
}

// storedEntry returns the entry of f that is stored in its record.
func (r *Reader) storedEntry(f *Func) (uint64, error) {
	b, err := r.funcs.getBytes(f.at, r.t.field())
	if err != nil {
		return 0, err
	}
	if r.t.version >= go118 {
		return uint64(r.t.order.Uint32(b)) + r.t.text, nil
	}
	return r.t.pointer(b), nil
}

// MaxName bounds names. Names of generic functions have some hundred bytes.
const MaxName = 64 << 10

// Name returns the name of f in the linker's form, with its package: "runtime.mcall",
// "main.(*T).M", "main.F[...]".
func (r *Reader) Name(f *Func) (string, error) {
	for n := 256; ; n *= 4 {
		b, err := r.names.someBytes(r.t.names.start+uint64(f.name), n)
		if err != nil {
			return "", fmt.Errorf("name of the function at %#x: %w", f.Entry, err)
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return strings.ToValidUTF8(string(b[:end]), "\uFFFD"), nil
		}
		if n >= MaxName || len(b) < n {
			return "", fmt.Errorf("name of the function at %#x: %w", f.Entry, ErrInvalid)
		}
	}
}
