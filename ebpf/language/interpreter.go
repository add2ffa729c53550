package language

// A language whose functions are not machine code supplies the location of its frames (a Spec, which is data), the
// meaning of the words of a frame, and a reader for code objects. Everything else is the same for every language:
// reading the frames in the kernel at the time of the sample, merging them with the native frames, and the numbers and
// names of functions, including functions of processes that have exited.

// Traits are the properties of a Library that are known as soon as its file is detected.
type Traits struct {
	// Frames says how functions of the language are shown that are not the machine code of Attach. If a process has
	// several libraries, the one with the highest value supplies the frames.
	Frames FramesKind
	// Generates is the name of a runtime that generates code in no file for functions: "Mono"; else "".
	Generates string
	// Switches returns how the code of the file with a path switches a thread to a different chain than the code that
	// called it has; nil if no file does.
	Switches func(path string) Switch
}

// FramesKind says how functions of a language are shown.
type FramesKind uint8

// The kinds.
const (
	NoFrames          FramesKind = iota // the Library has no frames
	GeneratedFrames                     // all functions are code in no file, which has the name of the runtime
	PlaceholderFrames                   // a placeholder frame stands for all functions that a native frame runs
	NamedFrames                         // functions have names
)

// NoInterpreter is the part of a Library whose functions are all machine code of Attach.
type NoInterpreter struct{}

// Traits implements Library.
func (NoInterpreter) Traits() Traits { return Traits{} }

// Evaluation implements Library.
func (NoInterpreter) Evaluation() (runs, entering []Range) { return nil, nil }

// FindFrames implements Library.
func (NoInterpreter) FindFrames(Process) (FrameReader, error) { return nil, ErrUnknown }

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

// PlainCode is the part of Code that contains no interpreter and keeps no frames in the heap.
type PlainCode struct{}

// Evaluates implements Code.
func (PlainCode) Evaluates(uint64) bool { return false }

// Frozen implements Code.
func (PlainCode) Frozen(uint64, uint64) (frozen, returned bool) { return false, false }

// Freezes implements Code.
func (PlainCode) Freezes(uint64, uint64, uint64) bool { return false }

// FrameReader finds and names the frames of a language, in all processes of its Spec. Safe for
// concurrent use.
type FrameReader interface {
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
	// Lines returns the functions at ip (see Frame.IP): the innermost first, then the functions that it was inlined
	// into, each with the line of the call. In machine code, ip is the offset of the instruction from the start of the
	// code; returned reports whether the instruction is a call. Lines is called for each place of a function that
	// samples show, and a process may keep producing new places: it reads only a few entries of the table.
	Lines(f *Function, ip uint64, returned bool) []Line
	// Unloads returns the address of a 64-bit counter in a process of the code objects that were freed while the
	// process lives. The counter starts at 0, and changes before the memory of a freed code object is reused. bias is
	// the load bias of the library's file. The error is ErrUnknown if there is no counter. The work is bounded.
	Unloads(m Memory, bias uint64) (counter uint64, err error)
	// Compiler returns what finds the position in machine code that the runtime has compiled from functions, for frames
	// with Made; nil if there are none.
	Compiler() Compiler
}

// OnlyInterpreted is the part of a FrameReader of a language without unloads and without a Compiler.
type OnlyInterpreted struct{}

// Unloads implements FrameReader.
func (OnlyInterpreted) Unloads(Memory, uint64) (counter uint64, err error) { return 0, ErrUnknown }

// Compiler implements FrameReader.
func (OnlyInterpreted) Compiler() Compiler { return nil }

// Compiler describes the machine code that a runtime compiled from functions.
type Compiler interface {
	// MachineCode describes the machine code at pc, which was compiled from the function whose code object is at
	// address function. An error means that the code is unknown. The work is bounded.
	MachineCode(m Memory, pc, function uint64) (MachineCode, error)
	// Stamp returns the current Stamp of the code that starts at low, or 0 if there is none.
	Stamp(m Memory, low uint64) uint64
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

// LineIn returns the line of f at ip, from its Table, as [FrameReader.Lines] does for a function without inlined ones.
func (f *Function) LineIn(ip uint64) []Line {
	line := Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	if ip != NoIP {
		line.Line = LineAt(f.Table, ip)
	}
	return []Line{line}
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
// does for virtual threads. It has the fields of struct frozen in bpf/abi/languages.h: mostly offsets in bytes.
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

// Slots are native frames that stand for frames of the language: native frames in Library.Evaluation, and in Code that
// Evaluates, and optionally frames in JIT code, which is in no file. The words of each slot are decoded independently.
type Slots struct {
	Low, High uint64 // ELF virtual addresses that enclose all ranges of Evaluation, or the Code that Evaluates
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

// The operations, with the same numbers as in bpf/abi/languages.h.
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

// The owners, with the same numbers as in bpf/abi/languages.h.
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

// Limits, with the same numbers as in bpf/abi/languages.h.
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

// The ends, with the same numbers as in bpf/abi/languages.h.
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
