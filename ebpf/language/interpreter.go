package language

// Interpreted is a Library whose functions are not machine code: an interpreter runs them, and keeps its own frames.
// Its Attach returns ErrUnknown if the runtime makes no machine code that has rows.
//
// A language supplies the location of the frames (a Spec, which is data), the meaning of the words of a frame, and a
// reader for code objects. Everything else is the same for every language: reading the frames in the kernel at the time
// of the sample, merging them with the native frames, and the numbers and names of functions, including functions of
// processes that have exited. Values must be comparable; a pointer is.
type Interpreted interface {
	Library
	// Evaluation returns the code ranges of the interpreter's evaluation loop, in ELF virtual addresses of the file.
	// Each native frame in a range executes one run of frames of the chain.
	Evaluation() []Range
	// Entering returns the parts of the Evaluation ranges in which a leaf frame has not yet pushed, or has already
	// popped, its chain frames: there, the chain does not describe the leaf. May be nil.
	Entering() []Range
	// Interpret returns how the frames of the language are found in a process. The error is ErrNotReady (the caller
	// retries for some seconds), ErrUnknown (the process has no such frames after all), *UnnamedError (each native
	// evaluation frame gets a placeholder frame), or any other error, which is reported. Interpreters of one Library
	// with equal Specs are interchangeable: one Interpreter serves all those processes, so it keeps no state of a
	// process.
	Interpret(p Process) (Interpreter, error)
}

// Unnamed is an Interpreted whose functions are never named. If a process also has another Interpreted, that one
// supplies the frames.
type Unnamed interface {
	Interpreted
	Unnamed()
}

// Making is an Unnamed that generates code for all functions, outside files. It may be a library of a process with
// another Interpreted, such as numba in Python.
type Making interface {
	Unnamed
	// Makes returns the name of the runtime: "Mono".
	Makes() string
}

// Switching is an Interpreted with libraries that switch a thread to a different chain than the code that called the
// library.
type Switching interface {
	Interpreted
	// Switches returns the kind of switch that the code of a file performs.
	Switches(path string) Switch
}

// Switch is the effect of a library on the chain of a thread.
type Switch uint8

// Switches. In both, the chain ends at the first native frame of the library beyond the chain's native frames.
const (
	NoSwitch Switch = iota
	// ToStack: the library has switched to a new stack. Native frames beyond the library's belong to the code that
	// happened to start that stack, or are not frames at all.
	ToStack
	// ToState: the library has switched to another thread state. Native frames beyond the library's are its callers,
	// and run functions of a chain that is not read.
	ToState
)

// UnnamedError reports that functions cannot be named, and has the text that the user sees instead.
type UnnamedError struct {
	Frame string // of the placeholder frame, in brackets: "[python 3.16 code]", "[PHP code]"
	Made  string // the same for JIT code that no perf map names; if "", such code is shown as in any process
	Hint  string // a sentence: which version it is, and what to do
}

func (e *UnnamedError) Error() string { return e.Frame + ": " + e.Hint }

// Range is the half-open address range [Low, High).
type Range struct{ Low, High uint64 }

// Holds reports whether an address is in the range.
func (r Range) Holds(addr uint64) bool { return addr >= r.Low && addr < r.High }

// Evaluator is Code that contains an interpreter: its native frames run functions of the language like native frames in
// Interpreted.Evaluation do. One goroutine uses it at a time.
type Evaluator interface {
	Code
	// Evaluates reports whether a native frame at an ELF virtual address runs a function, and has the words that
	// identify the function. It returns false while the frame is being set up or torn down.
	Evaluates(vaddr uint64) bool
}

// Freezing is Code whose frames may have callers that the runtime keeps in its heap. One goroutine uses it at a time.
type Freezing interface {
	Code
	// Frozen reports whether the caller of the code at an ELF virtual address is in the heap at time at
	// (CLOCK_MONOTONIC, ns); the frames that follow on the stack are then not its callers. returned reports whether
	// vaddr is only the return address of such a caller, not a frame of its own.
	Frozen(vaddr, at uint64) (frozen, returned bool)
	// Freezes reports whether the code at leaf may be about to leave frames that the runtime has copied to the heap:
	// then the frames are both on the stack and in the heap. top is the address in the innermost frame in the heap.
	Freezes(leaf, top, at uint64) bool
}

// Interpreter finds and names the frames of a language, in all processes of its Spec. Safe for
// concurrent use.
type Interpreter interface {
	// Name is the path shown for the functions' file, in brackets: "[python 3.11]".
	Name() string
	// Spec returns the data that the BPF program reads frames by. It does not change.
	Spec() *Spec
	// Frame decodes the words of one frame, in the order of Layout.Words. It is a pure function.
	Frame(words []uint64) Frame
	// Function describes a code object from the words and texts that the sample carried, or from the memory of the
	// process. Either may be missing: m is nil if the process has exited. An error means that the code object has no
	// name. The work is bounded.
	Function(m Memory, c *CodeObject) (Function, error)
	// Line returns the line of a function at ip (see Frame.IP), or 0 if unknown. It is called for each place of a
	// function that samples show, and a process may keep producing new places, so it reads only a few entries of the
	// table.
	Line(f *Function, ip uint64) int
}

// Unloading is an Interpreter whose code objects may be freed while the process lives, and whose runtime counts the
// frees.
type Unloading interface {
	// Unloads returns the address of a 64-bit counter in a process. The counter starts at 0, and changes before the
	// memory of a freed code object is reused. bias is the load bias of the library's file. The error is ErrUnknown if
	// there is no counter. The work is bounded.
	Unloads(m Memory, bias uint64) (counter uint64, err error)
}

// Compiling is an Interpreter that also compiles functions to machine code. For frames with Made, it finds the position
// in the function and the functions that were inlined there.
type Compiling interface {
	// MachineCode describes the machine code at pc, which was compiled from the function whose code object is at
	// address function. An error means that the code is unknown. The work is bounded.
	MachineCode(m Memory, pc, function uint64) (MachineCode, error)
	// Stamp returns the current Stamp of the code that starts at low, or 0 if there is none.
	Stamp(m Memory, low uint64) uint64
	// Lines returns the functions at ip: the innermost first, then the functions that it was inlined into, each with
	// the line of the call. In machine code, ip is the offset of the instruction from the start of the code; returned
	// reports whether the instruction is a call. The work is bounded.
	Lines(f *Function, ip uint64, returned bool) []Line
}

// MachineCode is machine code that was compiled from a function.
type MachineCode struct {
	Low, High uint64   // range of its instructions
	Stamp     uint64   // differs for different code at the same address
	Function  Function // source of the code, with a Table for Lines
}

// Frame is a frame of the language.
type Frame struct {
	Code   uint64 // address of the code object, without tags; if 0, only Text is shown
	IP     uint64 // position in the code object, an offset, so that it is the same in all processes; see NoIP
	Last   bool   // last frame of its run: its caller is native code
	Hidden bool   // is not shown
	Made   bool   // for Slots: it runs machine code that the runtime compiled
	Proved bool   // for Slots: the code object read for this frame belongs to it, even if it was read later
	Text   string // shown as it is if Code is 0: "[garbage collection]"
}

// NoIP is the IP of frames without a position in the code object.
const NoIP = 1<<64 - 1

// CodeObject is a code object found in a sample.
type CodeObject struct {
	Address uint64
	Cookie  uint64   // hash of the words of Layout.Cookie (see Fold); 0 if they could not be read
	Words   []uint64 // the same words, unhashed, if the sample carried them; else nil
	Text    [][]byte // the readable bytes of each of Layout.Texts, if the sample carried them
}

// Function is the name and source of a code object.
type Function struct {
	Name, File string
	StartLine  int
	// Whole is false if a part is missing because the sample did not carry it. Function is then called again with
	// memory while the process lives.
	Whole bool
	Table []byte // of lines, at most MaxTable bytes, see AppendLine
	Base  uint64 // also for Line
	Bytes uint64 // frames have IPs below this, except for NoIP and similar values; 0 if unknown
}

// Spec is the data that the BPF program reads frames by at each sample. Specs are compared by value.
type Spec struct {
	Chain *Chain // nil if none
	Slots *Slots // nil if none; a Spec has a Chain or Slots
	// Everywhere says that this Spec holds in every process whose program is this file, because no address depends on
	// the process. Then even the first sample of a new process has frames, before user space has examined the process.
	Everywhere bool
	Frozen     *Frozen // callers that the runtime keeps in its heap; nil if they are not found
}

// Frozen is the data by which the BPF program finds the callers of a thread that the runtime keeps in its heap, as Java
// does for virtual threads. Its fields are those of struct frozen in bpf/abi.h: mostly offsets in bytes.
type Frozen struct {
	Descriptor                      int64  // from the thread pointer: a pointer to the thread's descriptor
	EntryPC, BadBits, ColorShift    uint64 // ELF virtual addresses of variables; the last two may be 0
	Base, Shift, ReferenceBytes     uint64 // of references to objects
	Class, ClassMask, ClassAt       uint64 // of a chunk
	OSThread, OSThreadOwn           uint64
	Entry, LastSP, Carrier          uint64 // in the descriptor
	EntryBytes                      uint64
	Continuation                    uint64 // in the object of the thread
	Outer, Chunk                    uint64 // in a continuation
	ChunkParent, ChunkSize, ChunkSP uint64 // in a chunk
	ChunkBottom                     uint64
	BottomFromEnd                   bool
	ChunkStack                      uint64
	LocalsBelow                     uint64 // the frame pointer of an interpreted frame
}

// Chain is the list of frames that an interpreter keeps for each thread.
type Chain struct {
	Start []Step // path to the first frame (the leaf), or to Find; a null pointer: the thread runs no function
	Find  *Find  // then searches a list for this thread; nil if there is no list
	Then  []Step // after Find; Start and Then have at most MaxSteps steps
	Frame Layout
	Next  Next
	Stop  *Test // ends the chain before the first frame for which it is true; if nil, a null pointer ends the chain
}

// Slots are native frames that stand for frames of the language: native frames in Interpreted.Evaluation and of an
// Evaluator, and optionally frames in JIT code, which is in no file. The words of each slot are decoded independently.
type Slots struct {
	Low, High uint64 // ELF virtual addresses that enclose all ranges of Evaluation, or the code of the Evaluator
	NoFile    bool   // frames in JIT code, in no file, are also slots
	Frame     Layout // block 0 is at the frame pointer; a native frame whose cookie cannot be read is not a slot
}

// Layout returns the layout of the frames, or nil if there are none.
func (s *Spec) Layout() *Layout {
	switch {
	case s.Chain != nil:
		return &s.Chain.Frame
	case s.Slots != nil:
		return &s.Slots.Frame
	}
	return nil
}

// Step computes an address from the previous address; the first step starts from 0.
type Step struct {
	Op     Op
	Offset int64
	Scale  uint32 // for Index and Running
	Limit  uint32 // for Index and Running
}

// Op is the operation of a Step on the address, at.
type Op uint8

// The operations, with the same numbers as in bpf/abi.h.
const (
	Global        Op = iota + 1 // at = load bias of the file + Offset, an ELF virtual address
	ThreadPointer               // at = thread pointer + Offset: fsbase, tpidr_el0
	Load                        // at = *(uint64 *)(at + Offset)
	Index                       // at += Scale * i, i = *(uint32 *)(bias + Offset), which must be below Limit
	Add                         // at += Offset
	Absolute                    // at = Offset, an address in the process

	// Running leads to the thread state that the interpreter runs, at = *(uint64 *)(bias + Offset), if its word at
	// offset Scale is the thread pointer. Then the next Limit steps are left out. Otherwise they lead to a state of the
	// thread, which may have others, and a chain that would be ChainWhole is ChainFirstState.
	Running
)

// Find searches a linked list for the node of the thread. It starts at the address of the first node.
type Find struct {
	Word int64 // offset in a node of the word to compare ...
	To   Owner // ... with this
	Add  int64 // added to the thread pointer before the comparison
	Next int64 // offset of the pointer to the next node
}

// Owner is the field by which a list node identifies its thread.
type Owner uint8

// The owners, with the same numbers as in bpf/abi.h.
const (
	ByThreadPointer Owner = iota + 1 // the thread pointer, which is near the value of pthread_self
	ByTID                            // the kernel's thread ID, 32 bits
)

// Next leads from a frame to its caller.
type Next struct {
	Word   int    // index in Layout.Words of a pointer; -1 if frames are in an array
	Mask   uint64 // of the pointer; 0 for all bits
	Offset int64  // added to the pointer, or to the frame's address
}

// Test is true where value&Mask == Value.
type Test struct {
	Word  int // index in Layout.Words
	Mask  uint64
	Value uint64
}

// Layout describes the parts of a frame that are read. Each Block is one read, and a frame should have at most two: one
// for the frame, one for the code object. The BPF program shares some blocks between frames.
type Layout struct {
	Blocks   []Block // block 0 is at the frame
	Words    []Word  // recorded with the sample
	Code     int     // index in Words of the pointer to the code object; -1 if none
	CodeMask uint64  // of that pointer; 0 for all bits
	// Cookie is words that differ when another code object reuses the address, and that do not change before. They are
	// hashed to one number in each frame, see Fold.
	Cookie []Word
	Texts  []Text // name the code object; copied if it is new to the kernel
}

// Block is memory that is read with one read.
type Block struct {
	At     Word  // the pointer to it, in an earlier block; unused in block 0
	Offset int64 // from the pointer, or from the frame, to the first byte
	Bytes  int   // a multiple of 8
}

// Word is a word of a block.
type Word struct {
	Block  int
	Offset int    // from the start of the block, a multiple of 8 bytes
	Mask   uint64 // 0 for all bits
}

// Text is bytes that are copied as they are, such as a string object with its first characters. If the rest is not
// readable, only the bytes up to the end of a page are copied.
type Text struct {
	At     Word // the pointer to it
	Offset int64
	Bytes  int
}

// Limits, with the same numbers as in bpf/abi.h.
const (
	MaxSteps       = 8
	MaxBlocks      = 8
	MaxBlockBytes  = 128
	MaxWords       = 6
	MaxCookieWords = 8
	MaxTexts       = 3
	MaxTextBytes   = 192
	MaxTable       = 64 << 10
)

// ChainEnd is how the read of a chain ended.
type ChainEnd uint8

// The ends, with the same numbers as in bpf/abi.h.
const (
	ChainNone           ChainEnd = iota // no chain was read
	ChainWhole                          // the last frame has no caller
	ChainNoThread                       // the interpreter runs no function in this thread
	ChainNoStart                        // the path to the first frame cannot be read
	ChainThreadNotFound                 // the list of threads has no node for the thread
	ChainUnreadable                     // a frame cannot be read
	ChainTooLong                        // more frames than a sample can hold
	ChainFirstState                     // as ChainWhole, but the thread may run another state, see Running
	NumChainEnds
)

var chainEnds = [NumChainEnds]string{
	"none", "whole", "no_thread", "no_start", "thread_not_found", "unreadable", "too_long",
	"first_state",
}

func (e ChainEnd) String() string {
	if e < NumChainEnds {
		return chainEnds[e]
	}
	return "unknown"
}

// Fold hashes the masked words of a cookie, as the BPF program does for each frame.
func Fold(words []uint64) uint64 {
	const golden = 0x9e3779b97f4a7c15
	cookie, factor := uint64(1), uint64(golden)
	for _, w := range words {
		cookie += w * factor
		factor *= golden
	}
	return cookie ^ cookie>>32
}
