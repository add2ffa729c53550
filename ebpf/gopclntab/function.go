package gopclntab

import (
	"bytes"
	"fmt"
	"strings"
)

// Flags is what a function's assembly or the compiler declared about it.
type Flags uint8

// The flags (internal/abi.FuncFlag).
const (
	TopFrame Flags = 1 << iota // the outermost frame of its stack
	SPWrite                    // puts another value in the stack pointer, which SPDeltas does not know
	Asm                        // written in assembly
)

// Func is one function of a table.
type Func struct {
	Entry uint64 // ELF virtual address of the first instruction
	End   uint64 // where the next function begins
	// Flags is valid if HasFlags: since Go 1.17, but Asm since Go 1.18 only.
	Flags    Flags
	HasFlags bool

	at   uint64 // address of what the table knows of it
	name uint32 // offset of its name
	pcsp uint32 // offset of its table of stack pointer deltas; 0: none
}

// Offsets in what the table knows of a function, behind the entry: words of 4
// bytes are the name's offset, size of arguments, deferreturn or frame size, the
// offsets of the values for sp, file and line, and the number of other tables of
// values; Go 1.16 added the compilation unit, Go 1.20 the line of the
// declaration. The last four bytes are funcID since Go 1.12, and flags since Go
// 1.17, which has the layout of Go 1.16, where they are zero.
const (
	offName    = 0
	offPCSP    = 12
	offFlags   = 33 // Go 1.17 to 1.19
	recordSize = 40 // bytes at most behind the entry
)

// describe fills in f by what is at offset off.
func (r *Reader) describe(f *Func, off uint64) error {
	t := r.t
	if off > t.funcs.size()+(t.funcs.start-t.base()) {
		return ErrInvalid
	}
	f.at = t.base() + off
	b, err := r.funcs.some(f.at, t.field()+recordSize)
	if err != nil {
		return err
	}
	if len(b) < t.field()+offPCSP+4 {
		return ErrInvalid
	}
	b = b[t.field():]
	f.name, f.pcsp = t.order.Uint32(b[offName:]), t.order.Uint32(b[offPCSP:])
	at := offFlags
	if t.version >= go120 {
		at += 4
	}
	if t.version >= go116 && at < len(b) {
		f.Flags, f.HasFlags = Flags(b[at]), t.version >= go118
	}
	return nil
}

// storedEntry returns the entry of f as it is stated a second time.
func (r *Reader) storedEntry(f *Func) (uint64, error) {
	b, err := r.funcs.get(f.at, r.t.field())
	if err != nil {
		return 0, err
	}
	if r.t.version >= go118 {
		return uint64(r.t.order.Uint32(b)) + r.t.text, nil
	}
	return r.t.pointer(b), nil
}

// maxName bounds names; those of generic functions have some hundred bytes.
const maxName = 64 << 10

// Name returns the name of f as the linker wrote it, with its package:
// "runtime.mcall", "main.(*T).M", "main.F[...]".
func (r *Reader) Name(f *Func) (string, error) {
	for n := 256; ; n *= 4 {
		b, err := r.names.some(r.t.names.start+uint64(f.name), n)
		if err != nil {
			return "", fmt.Errorf("name of the function at %#x: %w", f.Entry, err)
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return strings.ToValidUTF8(string(b[:end]), "\uFFFD"), nil
		}
		if n >= maxName || len(b) < n {
			return "", fmt.Errorf("name of the function at %#x: %w", f.Entry, ErrInvalid)
		}
	}
}
