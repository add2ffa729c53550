// Package codeflow follows the machine code of one function and finds the starts of its
// instructions, its returns to the caller, and its jumps to other functions. Probes need these
// addresses. A breakpoint in the middle of an instruction or in data changes the behavior of the
// program, and the kernel's own return probes replace a return address that unwinders read.
//
// It follows every branch from the function's first instruction, from the landing pads of
// exceptions, and through jump tables in the forms that compilers emit. It reports the jumps that
// it could not follow. It supports x86-64 and arm64, and the part of i386 that start code needs. No
// input makes it panic, and its work is bounded by MaxCode.
package codeflow

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// MaxCode bounds the bytes of code of one function.
const MaxCode = 1 << 20

// Image reads the bytes of a program by ELF virtual address. *elffile.File implements it.
type Image interface {
	ReadVaddr(p []byte, vaddr uint64) error
}

// Options describe a function apart from its code.
type Options struct {
	Machine elf.Machine
	// Roots are additional entry points inside the function, such as landing pads of exceptions.
	Roots []uint64
	// Part returns the range of a separate part of the function, such as a .cold part, if the jump
	// target to is in one. conditional says that the jump is conditional. If nil, the function has
	// no separate parts.
	Part func(to uint64, conditional bool) (start, end uint64, ok bool)
}

// Function is the code of a function that was followed. Its slices are sorted by address.
type Function struct {
	Instructions []Instruction
	// Unfollowed is the address of the first indirect jump with unknown targets. If 0, there is
	// none, and Instructions contains all exits of the function.
	Unfollowed uint64
	// Addresses are the addresses of data and functions that the code computes relative to itself,
	// and of jump tables.
	Addresses []uint64
	// Calls are the targets of direct calls.
	Calls []uint64
	// CallsBySlot says that the code contains indirect calls, through memory or a register.
	CallsBySlot bool

	at map[uint64]int // index of Instructions, by address
}

// Kind is the control flow of an instruction.
type Kind uint8

// The kinds.
const (
	Next   Kind = iota // continues with the next instruction, or with a branch inside the function
	Return             // returns to the caller
	Leave              // jumps to the start of another function, which then returns to this function's caller
	Slot               // like Leave, to a function whose address is in a slot of the file; usually in another file
)

// Instruction is an instruction that the function can reach.
type Instruction struct {
	Addr   uint64
	Length int
	Kind   Kind
	To     uint64 // for Leave the other function, for Slot the slot
	// Conditional says for Leave that execution continues with the next instruction if the
	// condition is false.
	Conditional bool
}

// Errors of Follow, wrapped with the address.
var (
	ErrMachine  = errors.New("code of this machine is not known")
	ErrTooLarge = errors.New("the function is too large")
	ErrDecode   = errors.New("no valid instruction")
	ErrOverlap  = errors.New("instructions overlap: data in code, or a jump into an instruction")
)

// Follow follows the function whose first part is [start, end). After an error, no address in the
// function is reliable.
func Follow(image Image, start, end uint64, o Options) (*Function, error) {
	if end <= start || end-start > MaxCode {
		return nil, fmt.Errorf("%#x to %#x: %w", start, end, ErrTooLarge)
	}
	w, err := newWalk(image, start, end, o)
	if err != nil {
		return nil, err
	}
	w.todo = append(w.todo, start)
	for _, root := range o.Roots {
		if w.partOf(root) != nil {
			w.todo = append(w.todo, root)
		}
	}
	if err := w.followPaths(); err != nil {
		return nil, err
	}
	f := w.function
	for _, s := range w.met {
		if s.base != 0 {
			f.Addresses = append(f.Addresses, s.base)
		}
	}
	slices.Sort(f.Addresses)
	f.Addresses = slices.Compact(f.Addresses)
	slices.Sort(f.Calls)
	f.Calls = slices.Compact(f.Calls)
	slices.SortFunc(f.Instructions, func(a, b Instruction) int { return cmp.Compare(a.Addr, b.Addr) })
	for i, in := range f.Instructions {
		if i > 0 && f.Instructions[i-1].Addr+uint64(f.Instructions[i-1].Length) > in.Addr {
			return nil, fmt.Errorf("%#x: %w", in.Addr, ErrOverlap)
		}
		f.at[in.Addr] = i
	}
	return f, nil
}

// newWalk returns a walk of the code [start, end).
func newWalk(image Image, start, end uint64, o Options) (*walk, error) {
	w := &walk{image: image, options: o, function: &Function{at: map[uint64]int{}}, covered: map[uint64]bool{},
		met: map[uint64]step{}}
	if w.decode = decoderOf(o.Machine); o.Machine == elf.EM_386 {
		w.decode = decodeI386
	}
	if w.decode == nil {
		return nil, fmt.Errorf("%v: %w", o.Machine, ErrMachine)
	}
	return w, w.addPart(start, end)
}

// At returns the instruction that starts at an address.
func (f *Function) At(addr uint64) (in Instruction, ok bool) {
	i, ok := f.at[addr]
	if !ok {
		return Instruction{}, false
	}
	return f.Instructions[i], true
}

// Exits returns the instructions that leave the function: its returns, and its jumps to other
// functions.
func (f *Function) Exits() (out []Instruction) {
	for _, in := range f.Instructions {
		if in.Kind != Next {
			out = append(out, in)
		}
	}
	return out
}

// part is a range of the function's code.
type part struct {
	start, end uint64
	code       []byte
}

// walk is the state of following one function.
type walk struct {
	image    Image
	options  Options
	function *Function
	parts    []part
	todo     []uint64        // addresses of code to follow
	covered  map[uint64]bool // addresses of the instructions followed so far
	met      map[uint64]step // instructions, by address, that show the address or length of a jump table
	tables   []step          // indirect jumps whose tables are not read yet
	decode   decoder
	entry    *entryCode // set if the code is an entry point, nil for a function
}

// step is the effect of an instruction.
type step struct {
	Instruction
	next     bool   // execution may continue with the next instruction
	branch   bool   // it may jump to target
	target   uint64 // of a branch or jump
	indirect bool   // it jumps to an address in a register or in memory
	calls    uint64 // target of a direct call; 0 if none
	// callsBySlot says that it is an indirect call, through memory or a register.
	callsBySlot bool
	absolute    bool   // the target is read from memory, from a table of addresses
	base        uint64 // an address that it computes, or the table of an indirect jump; 0 if none
	bound       uint64 // operand of a comparison plus 1, the possible number of entries of a table; 0 if none
}

func (w *walk) addPart(start, end uint64) error {
	total := end - start
	for _, p := range w.parts {
		total += p.end - p.start
	}
	if total > MaxCode {
		return fmt.Errorf("%#x: %w", start, ErrTooLarge)
	}
	code := make([]byte, end-start)
	if err := w.image.ReadVaddr(code, start); err != nil {
		return fmt.Errorf("read the code at %#x: %w", start, err)
	}
	w.parts = append(w.parts, part{start, end, code})
	return nil
}

func (w *walk) partOf(addr uint64) *part {
	for i := range w.parts {
		if p := &w.parts[i]; addr >= p.start && addr < p.end {
			return p
		}
	}
	return nil
}

// followPaths follows all code in todo, and then the targets of jump tables, until there is no new code.
func (w *walk) followPaths() error {
	for len(w.todo) > 0 {
		for len(w.todo) > 0 {
			addr := w.todo[len(w.todo)-1]
			w.todo = w.todo[:len(w.todo)-1]
			if err := w.follow(addr); err != nil {
				return err
			}
		}
		for _, jump := range w.tables {
			w.todo = append(w.todo, w.readTable(jump)...)
		}
		w.tables = w.tables[:0]
	}
	return nil
}

// follow follows the code from addr until it reaches an instruction that was already followed.
func (w *walk) follow(addr uint64) error {
	if w.entry != nil {
		w.entry.begin()
	}
	for {
		p := w.partOf(addr)
		if p == nil {
			return nil // past the end, after a call that does not return
		}
		if w.covered[addr] {
			return nil
		}
		s, err := w.decode(addr, p.code[addr-p.start:])
		if err != nil {
			return err
		}
		w.covered[addr] = true
		if s.base != 0 || s.bound != 0 {
			w.met[addr] = s
		}
		if s.calls != 0 {
			w.function.Calls = append(w.function.Calls, s.calls)
		}
		w.function.CallsBySlot = w.function.CallsBySlot || s.callsBySlot
		if s.branch {
			leaves, err := w.followJump(s.target, s.next)
			if err != nil {
				return err
			}
			if leaves {
				s.Kind, s.To, s.Conditional = Leave, s.target, s.next
			}
		}
		if s.indirect {
			w.tables = append(w.tables, s)
		}
		w.function.Instructions = append(w.function.Instructions, s.Instruction)
		addr += uint64(s.Length)
		if !s.next || w.entry != nil && w.entry.endsEntry(p.code[s.Addr-p.start:addr-p.start], &s) {
			return nil
		}
	}
}

// followJump queues a jump target if it belongs to this function, and otherwise reports that the jump
// leaves the function.
func (w *walk) followJump(to uint64, conditional bool) (leaves bool, err error) {
	if w.partOf(to) == nil {
		if w.options.Part == nil {
			return true, nil
		}
		start, end, ok := w.options.Part(to, conditional)
		if !ok || to < start || to >= end {
			return true, nil
		}
		if err := w.addPart(start, end); err != nil {
			return false, err
		}
	}
	w.todo = append(w.todo, to)
	return false, nil
}
