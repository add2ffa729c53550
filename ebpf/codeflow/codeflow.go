// Package codeflow follows the machine code of one function: where its instructions begin, where it returns to its
// caller, and where it jumps to another function. A breakpoint in the middle of an instruction, or in data, changes
// what a program computes, and the kernel's own way to see a function return replaces a return address, which unwinders
// read. So the places of probes come from here.
//
// It follows every branch from the function's first instruction, from the landing pads of exceptions, and through jump
// tables in the forms that compilers emit. It says what it could not follow. x86-64 and arm64 are known,
// and of i386 what start code needs. No input makes it panic, and its work is bounded by MaxCode.
package codeflow

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// MaxCode is the most bytes of code of one function that are followed.
const MaxCode = 1 << 20

// Image reads the bytes of a program by ELF virtual addresses; *elffile.File does.
type Image interface {
	ReadVaddr(p []byte, vaddr uint64) error
}

// Options say what is known of a function apart from its code.
type Options struct {
	Machine elf.Machine
	// Roots are further addresses in the function where its code is entered, such as landing pads of exceptions.
	Roots []uint64
	// Part returns the range of a part of the function that lies elsewhere, such as a .cold part, if the address that is
	// jumped to, perhaps on a condition, is in one. Nil: the function has no other parts.
	Part func(to uint64, conditional bool) (start, end uint64, ok bool)
}

// Function is the code of a function as far as it was followed. Its slices are sorted by address.
type Function struct {
	Instructions []Instruction
	// Unfollowed is the first jump to an address that is not in the code; 0: there is none, so that Instructions has all
	// ways out of the function.
	Unfollowed uint64
	// Addresses are those that the code computes relative to itself: of data, and of functions.
	Addresses []uint64
	// Calls are the functions that the code calls by their distance.
	Calls []uint64
	// CallsBySlot says that the code calls functions whose address is in memory or in a register.
	CallsBySlot bool

	at map[uint64]int // index of Instructions, by address
}

// Kind is where an instruction goes on.
type Kind uint8

// The kinds.
const (
	Next   Kind = iota // with the next instruction, or with a branch inside the function
	Return             // to the caller
	Leave              // to the start of another function, whose caller is then that of this one
	Slot               // likewise, to a function whose address is in a slot of the file: mostly of another file
)

// Instruction is an instruction that the function reaches.
type Instruction struct {
	Addr   uint64
	Length int
	Kind   Kind
	To     uint64 // of Leave: the other function. of Slot: the slot
	// Conditional says, of Leave, that the next instruction follows if the condition does not hold.
	Conditional bool
}

// Errors of Follow, each wrapped with the address.
var (
	ErrMachine  = errors.New("code of this machine is not known")
	ErrTooLarge = errors.New("the function is too large")
	ErrDecode   = errors.New("no valid instruction")
	ErrOverlap  = errors.New("instructions overlap: data in code, or a jump into an instruction")
)

// Follow follows the function whose first part is from start to end. An error says that no place in the function is
// certain.
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
	if err := w.run(); err != nil {
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

// newWalk returns a walk of code from start to end.
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

// At returns the instruction that begins at an address.
func (f *Function) At(addr uint64) (in Instruction, ok bool) {
	i, ok := f.at[addr]
	if !ok {
		return Instruction{}, false
	}
	return f.Instructions[i], true
}

// Exits returns the instructions by which the function ends: its returns, and its jumps to other functions.
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

// walk follows one function.
type walk struct {
	image    Image
	options  Options
	function *Function
	parts    []part
	todo     []uint64        // where code begins that was not followed yet
	covered  map[uint64]bool // the addresses of the instructions that were followed
	met      map[uint64]step // instructions, by address, that say where jump tables are and how long
	tables   []step          // jumps by a register or by memory, whose tables are to be read
	decode   decoder
	entry    *entryCode // the code is that of an entry point; nil: of a function
}

// step is what an instruction does.
type step struct {
	Instruction
	next     bool   // the next instruction may follow
	branch   bool   // it may go to target
	target   uint64 // of a branch, or of a jump
	indirect bool   // it jumps to an address in a register or in memory
	calls    uint64 // the function that it calls; 0: none
	// callsBySlot says that it calls a function whose address is in memory or in a register.
	callsBySlot bool
	absolute    bool   // the address is in memory, in a table of addresses
	base        uint64 // an address that it computes, or the table of an indirect jump; 0: none
	bound       uint64 // a number that it compares with, plus 1: as many entries has a table; 0: none
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

// run follows all code that is to do, then what jump tables lead to, until nothing is new.
func (w *walk) run() error {
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

// follow goes along the code from addr until it meets what it has met before.
func (w *walk) follow(addr uint64) error {
	if w.entry != nil {
		w.entry.begin()
	}
	for {
		p := w.partOf(addr)
		if p == nil {
			return nil // beyond the end, after a call that does not return
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
			leaves, err := w.jump(s.target, s.next)
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
		if !s.next || w.entry != nil && w.entry.ends(p.code[s.Addr-p.start:addr-p.start], &s) {
			return nil
		}
	}
}

// jump has the code at an address followed if it is the function's, and reports whether it is another function's.
func (w *walk) jump(to uint64, conditional bool) (leaves bool, err error) {
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
