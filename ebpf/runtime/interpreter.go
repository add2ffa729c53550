package runtime

// Interpreted is a Library whose functions are no machine code: an interpreter runs them, and
// keeps frames of its own. Its Attach returns ErrUnknown if it makes no code that has rows.
//
// What a language has to know is little: where the frames are (a Spec, which is data), what
// the words of a frame mean, and how a code object is read. All else is the same for every
// language: the reading at the time of the sample, in the kernel; the place of the frames
// among the native ones; numbers and names of functions, also of processes that are gone.
// Its values can be compared: a pointer will do.
type Interpreted interface {
	Library
	// Evaluation returns the ranges of code, in ELF virtual addresses of the file, whose
	// native frames run functions of the language: each runs one run of the chain.
	Evaluation() []Range
	// Entering returns where in those ranges a leaf has not yet, or no longer, the frames of
	// the chain that it runs: what the chain has of it there is not to be believed. May be nil.
	Entering() []Range
	// Interpret returns how the frames of the language are found in a process. Errors are
	// ErrNotReady (asked again soon, for some seconds), ErrUnknown (there are none after all),
	// *UnnamedError (a visible frame for each native frame of the evaluation), or another one,
	// which is reported. Interpreters of one Library that have equal Specs are interchangeable:
	// one of them serves all those processes, so it keeps nothing of a process.
	Interpret(p Process) (Interpreter, error)
}

// Unnamed is an Interpreted whose functions are never named. A process that has another one,
// too, has the frames of that.
type Unnamed interface {
	Interpreted
	Unnamed()
}

// Switching is an Interpreted with libraries that lead a thread to another chain than that of the code that called
// them.
type Switching interface {
	Interpreted
	// Switches says what code of a file does.
	Switches(path string) Switch
}

// Switch is what a library may do to the chain of a thread.
type Switch uint8

// Switches. In both, the chain ends at the first native frame of the library that is beyond the chain's.
const (
	NoSwitch Switch = iota
	// ToStack: the library has begun a stack. Native frames beyond its own are of who happened to begin it, or are no
	// frames any more.
	ToStack
	// ToState: the library has gone over to another state of the thread. Native frames beyond its own are its callers,
	// and run functions of a chain that is not read.
	ToState
)

// UnnamedError says that functions cannot be named, and what the user sees instead.
type UnnamedError struct {
	Frame string // in brackets: "[python 3.16 code]", "[PHP code]"
	Made  string // the same, for code in no file that no perf map names; "": it is shown as in any process
	Hint  string // a sentence: which version it is, and what to do
}

func (e *UnnamedError) Error() string { return e.Frame + ": " + e.Hint }

// Range is the addresses from Low on, up to High, which is not one of them.
type Range struct{ Low, High uint64 }

// Holds reports whether an address is in the range.
func (r Range) Holds(addr uint64) bool { return addr >= r.Low && addr < r.High }

// Evaluator is Code that has an interpreter in it: its native frames run functions of the language
// as those of Interpreted.Evaluation do. One goroutine uses it at a time.
type Evaluator interface {
	Code
	// Evaluates reports whether a native frame at an ELF virtual address runs a function, and has the
	// words that say which: not while it is being made, or left.
	Evaluates(vaddr uint64) bool
}

// Freezing is Code whose frames may have callers that the runtime keeps in its heap. One goroutine uses it at a time.
type Freezing interface {
	Code
	// Frozen reports whether what called the code that was at an ELF virtual address at a time, CLOCK_MONOTONIC in ns, is
	// in the heap; the stack has frames of others there. returned says that this is where such a caller would be
	// returned to, and no frame of its own.
	Frozen(vaddr, at uint64) (frozen, returned bool)
}

// Interpreter finds and names the frames of a language, in all processes of its Spec. Safe for
// concurrent use.
type Interpreter interface {
	// Name stands for the file of the functions, in brackets: "[python 3.11]".
	Name() string
	// Spec is what the BPF program reads. It does not change.
	Spec() *Spec
	// Frame says what the words of one frame of the chain mean, those of Layout.Words. Pure.
	Frame(words []uint64) Frame
	// Function describes a code object: by what the sample carried of it, or by the memory of
	// the process. Either may be missing: m is nil if the process has gone. An error says that
	// it has no name; work is bounded.
	Function(m Memory, c *CodeObject) (Function, error)
	// Line returns the line of a function that is executed at ip, see Frame.IP; 0 if that is
	// not known. It is asked for each place where a function was seen, so it looks at no more
	// than some entries of the table: a process may be at ever new places of it.
	Line(f *Function, ip uint64) int
}

// Unloading is an Interpreter whose code objects may go while the process lives, which then counts that.
type Unloading interface {
	// Unloads returns the address of a 64-bit number in a process that was 0 at first and is another one before the
	// memory of a code object that has gone is used again. bias is that of the library's file. The error is ErrUnknown
	// if there is none. Work is bounded.
	Unloads(m Memory, bias uint64) (counter uint64, err error)
}

// Compiling is an Interpreter that makes machine code of functions, too. Of frames with Made, it knows where in their
// function they are, and what was inlined there.
type Compiling interface {
	// MachineCode describes the code that an instruction belongs to, and that was made of the function whose code
	// object is at an address. An error says that nothing is known of it. Work is bounded.
	MachineCode(m Memory, pc, function uint64) (MachineCode, error)
	// Stamp returns the Stamp of the code that begins at an address now, 0 if there is none.
	Stamp(m Memory, low uint64) uint64
	// Lines returns the functions at ip, the innermost first, then those that it was inlined into, each with the line
	// of the call. In machine code, ip is the bytes from its beginning to the instruction; returned says that this is
	// a call. Work is bounded.
	Lines(f *Function, ip uint64, returned bool) []Line
}

// MachineCode is code that was made of a function.
type MachineCode struct {
	Low, High uint64   // of its instructions
	Stamp     uint64   // is another one if the code is
	Function  Function // that it was made of, with a Table for Lines
}

// Frame is a frame of the language.
type Frame struct {
	Code   uint64 // address of the code object, without tags; 0: Text is all there is to show
	IP     uint64 // where in the code object: no address, so that it is the same in all processes; see NoIP
	Last   bool   // the last of its run: native code called it
	Hidden bool   // not to be shown
	Made   bool   // of Slots: it runs machine code that the runtime made
	Proved bool   // of Slots: what was read of the code object is of this frame, even if it was read later
	Text   string // shown as it is if Code is 0: "[garbage collection]"
}

// NoIP is the IP of frames that do not say where in the code object they are.
const NoIP = 1<<64 - 1

// CodeObject is a code object that a sample met.
type CodeObject struct {
	Address uint64
	Cookie  uint64   // the words of Layout.Cookie, folded; 0 if they could not be read
	Words   []uint64 // carried: the same words, not folded; nil: nothing was carried
	Text    [][]byte // carried: the bytes of each of Layout.Texts that could be read
}

// Function is what a code object is called.
type Function struct {
	Name, File string
	StartLine  int
	// Whole is false if something was cut off or left out because it was not carried: Function
	// is called again, with memory, while the process lives.
	Whole bool
	Table []byte // of its lines, at most MaxTable bytes, see AppendLine
	Base  uint64 // for Line, too
	Bytes uint64 // no frame is at an IP from there on, but for NoIP and the like; 0: unknown
}

// Spec is what the BPF program reads at each sample. Specs are compared by what they say.
type Spec struct {
	Chain *Chain // nil: none
	Slots *Slots // nil: none; there is a chain or there are slots
	// Everywhere says that this holds in every process whose program the file is, as no
	// address depends on the process. Then the first sample of a new one has its frames,
	// before anybody has looked at the process.
	Everywhere bool
}

// Chain is the list of frames that an interpreter keeps of each thread.
type Chain struct {
	Start []Step // to the first frame, the leaf, or to Find. A pointer of 0: the thread runs nothing
	Find  *Find  // then searches a list for this thread; nil: none
	Then  []Step // after Find; Start and Then have at most MaxSteps steps
	Frame Layout
	Next  Next
	Stop  *Test // ends the chain before the frame for which it holds; nil: a pointer of 0 does
}

// Slots are native frames that stand for frames of the language: those of Interpreted.Evaluation and of an
// Evaluator, and perhaps those of code in no file. What the words of one mean does not depend on others.
type Slots struct {
	Low, High uint64 // ELF virtual addresses between which all of Evaluation is, or what the Evaluator evaluates
	NoFile    bool   // so do those of code in no file, which the runtime made
	Frame     Layout // block 0 is at the frame pointer; frames whose cookie cannot be read are none
}

// Layout returns what is read of a frame, nil if nothing is.
func (s *Spec) Layout() *Layout {
	switch {
	case s.Chain != nil:
		return &s.Chain.Frame
	case s.Slots != nil:
		return &s.Slots.Frame
	}
	return nil
}

// Step goes from one address to another, the first from 0.
type Step struct {
	Op     Op
	Offset int64
	Scale  uint32 // of Index
	Limit  uint32 // of Index
}

// Op is what a Step does to an address, at.
type Op uint8

// The operations; bpf/abi.h has the same numbers.
const (
	Global        Op = iota + 1 // at = bias of the file + Offset, an ELF virtual address
	ThreadPointer               // at = thread pointer + Offset: fsbase, tpidr_el0
	Load                        // at = *(uint64 *)(at + Offset)
	Index                       // at += Scale * i, i = *(uint32 *)(bias + Offset), which must be below Limit
	Add                         // at += Offset
	Absolute                    // at = Offset, an address in the process
)

// Find searches a list for the node of the thread. The address is the first node's.
type Find struct {
	Word int64 // offset in a node of the word that is compared ...
	To   Owner // ... with this
	Add  int64 // added to the thread pointer before
	Next int64 // offset of the pointer to the next node
}

// Owner is how a list says which thread a node is of.
type Owner uint8

// The owners; bpf/abi.h has the same numbers.
const (
	ByThreadPointer Owner = iota + 1 // the thread pointer, which pthread_self is close to
	ByTID                            // the kernel's thread ID, 32 bits
)

// Next is the way from a frame to its caller.
type Next struct {
	Word   int    // index in Layout.Words of a pointer; -1: frames lie in an array
	Mask   uint64 // and-ed to the pointer; 0: all bits
	Offset int64  // added to the pointer, or to the frame's address
}

// Test is true where value&Mask == Value.
type Test struct {
	Word  int // index in Layout.Words
	Mask  uint64
	Value uint64
}

// Layout says what is read of a frame. Each Block is one read, of which a frame should have
// two at most: one of the frame, one of the code object. The BPF program reads some of them for several frames.
type Layout struct {
	Blocks   []Block // block 0 is at the frame
	Words    []Word  // go with the sample
	Code     int     // index in Words of the pointer to the code object; -1: none
	CodeMask uint64  // and-ed to it; 0: all bits
	// Cookie is words that differ when the address of a code object is used for another one
	// later, and that do not change before. They are folded to one number in each frame.
	Cookie []Word
	Texts  []Text // name the code object: copied if it is new to the kernel
}

// Block is memory that is read at once.
type Block struct {
	At     Word  // the pointer to it, in a block before; not used in block 0
	Offset int64 // from there, or from the frame, to its first byte
	Bytes  int   // a multiple of 8
}

// Word is a word of a block.
type Word struct {
	Block  int
	Offset int    // bytes from the beginning of the block, a multiple of 8
	Mask   uint64 // and-ed to it; 0: all bits
}

// Text is bytes that are copied as they are, such as a string object up to its first characters.
// Fewer are copied if the rest is not readable: only those up to the end of a page.
type Text struct {
	At     Word // the pointer to it
	Offset int64
	Bytes  int
}

// Limits; bpf/abi.h has the same numbers.
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

// ChainEnd says how the reading of a chain ended.
type ChainEnd uint8

// The ends; bpf/abi.h has the same numbers.
const (
	ChainNone           ChainEnd = iota // none was read
	ChainWhole                          // the last frame has no caller
	ChainNoThread                       // the interpreter runs nothing in this thread
	ChainNoStart                        // the way to the first frame cannot be read
	ChainThreadNotFound                 // in the list of threads
	ChainUnreadable                     // a frame
	ChainTooLong                        // more frames than a sample can have
	NumChainEnds
)

var chainEnds = [NumChainEnds]string{
	"none", "whole", "no_thread", "no_start", "thread_not_found", "unreadable", "too_long",
}

func (e ChainEnd) String() string {
	if e < NumChainEnds {
		return chainEnds[e]
	}
	return "unknown"
}

// Fold folds the words of a cookie, masked: as the BPF program does for each frame.
func Fold(words []uint64) uint64 {
	const golden = 0x9e3779b97f4a7c15
	cookie, factor := uint64(1), uint64(golden)
	for _, w := range words {
		cookie += w * factor
		factor *= golden
	}
	return cookie ^ cookie>>32
}
