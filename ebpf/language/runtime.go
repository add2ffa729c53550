// Package language is the contract between the profiler and the language runtimes that it supports. A runtime makes
// code while a process runs; this contract describes how to unwind that code and how to name it. Only runtimes have
// knowledge of a language: package process finds the runtimes of a process and asks them, and all higher layers see
// frames with a CodeID.
//
// One file is a runtime in many processes, so there are three steps, from shared data to data of one page or frame:
//
//	Language.Detect(file)         -> Library       once for each file that a process maps
//	Library.Attach(process)       -> Code          once for each process, again while it is not ready
//	Code.Page, Identify, Lines                     for each page of rows, frame and name
//	Library.FindFrames(process)   -> FrameReader   once for each process, again while it is not ready
//	FrameReader.Frame, Function, Lines             for each frame, code object and name
//
// A runtime that compiles functions to machine code with unwind rows has a Code, for example Toy in
// docs/architecture/adding.md, which says how to add a language. A runtime whose functions an interpreter runs has a
// FrameReader, for example ebpf/language/cpython. ebpf/language/jvm has both. The other folders are the same for all
// languages:
//
//	chain    walks the frames that an interpreter keeps for a thread, and places them among native frames
//	engine   numbers the functions that samples show, and reads them from processes within bounds
//	merge    inserts the frames of a language into the native frames of a sample
//	all      the table of the languages
package language

import (
	"errors"
	"io"
	"time"

	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Errors of Attach with a meaning beyond failure.
var (
	// ErrNotReady reports that the runtime has not started yet: attach again a little later.
	ErrNotReady = errors.New("the runtime has not started yet")
	// ErrUnknown reports that the file is not a runtime of the language after all. It is not reported as a failure.
	ErrUnknown = errors.New("not a known language runtime")
)

// ErrBusy reports that the memory of a process cannot be read at the moment; a later read may succeed.
var ErrBusy = errors.New("memory cannot be read now")

// Language detects the runtimes of one language. Safe for concurrent use.
type Language interface {
	// Name returns the name of the language: "python". It is the first word of the FrameReader's name, and the language
	// of Code. It is "" if functions are never named.
	Name() string
	// Detect returns the runtime in a file, or nil if there is none. path is the file's path in a process that has
	// mapped it. The file is valid during the call only.
	Detect(path string, file *elffile.File) Library
}

// Library is a file that contains a language runtime, with the data that is the same in all processes that have mapped
// it. Values are comparable; a pointer is. Safe for concurrent use.
type Library interface {
	// Attach returns the code that the runtime makes in a process. The error is ErrNotReady, ErrUnknown, or the reason
	// why the code will never be known.
	Attach(p Process) (Code, error)
	// Traits returns the properties of the library. They do not change, and are known at once.
	Traits() Traits
	// Evaluation returns the code ranges of the interpreter's evaluation loop, in ELF virtual addresses of the file.
	// Each native frame in a range executes one run of frames of the chain. entering are the parts of the ranges in
	// which a leaf frame has not yet pushed, or has already popped, its chain frames: there, the chain does not
	// describe the leaf.
	Evaluation() (runs, entering []Range)
	// FindFrames returns how the frames of the language are found in a process. The error is ErrNotReady (the caller
	// retries for some seconds), ErrUnknown (the process has no such frames after all), *UnnamedError (each native
	// evaluation frame gets a placeholder frame), or any other error, which is reported. FrameReaders of one Library
	// with equal Specs are interchangeable: one FrameReader serves all those processes, so it keeps no state of a
	// process.
	FindFrames(p Process) (FrameReader, error)
}

// Process is a process that has mapped a Library.
type Process struct {
	PID    uint32
	Bias   uint64 // load address of the library minus its ELF virtual address
	Memory Memory
}

// Memory is the memory of a process, by address; procfs.Memory implements it. The error is ErrBusy if it is unknown
// whether the memory is readable.
type Memory interface {
	io.ReaderAt
	// ReadEach reads size bytes at each address into b, and returns how many addresses it read before the first
	// unreadable one. The only error is ErrBusy.
	ReadEach(addrs []uint64, size int, b []byte) (int, error)
}

// RowSource supplies the unwind rows of an executable: a file, or a runtime. Addresses are ELF virtual addresses, or
// their equivalent in runtime code (see Code.Base). One goroutine uses it at a time.
type RowSource interface {
	// Page builds page n; each page covers 1<<shift bytes. It may return a page together with an error: walks end at
	// that page, and do not request it again.
	Page(n uint64, shift uint8) (*unwind.Page, error)
	// CallFrame returns the call frame information at an address, and false if there is none.
	CallFrame(vaddr uint64) (unwind.CallFrame, bool, error)
	// Changed returns the given, already built pages that must be built again, and forgets them. If this cannot be
	// determined now, pages are trusted for a moment.
	Changed(pages []uint64) []uint64
	// Trim frees data that is only needed to build pages and has not been used since a time. It is called a few times a
	// minute.
	Trim(since time.Time)
}

// Code is the code that a runtime makes in one process while it runs. Its address bounds do not change. One goroutine
// uses it at a time.
type Code interface {
	RowSource
	// Path is the path, in brackets, of the executable that stands for the code.
	Path() string
	// Language returns the name of the language.
	Language() string
	// Bounds returns the address bounds of the code.
	Bounds() (low, high uint64)
	// Built returns the pages that were built and have not been forgotten since.
	Built() []uint64
	// Forget forgets pages.
	Forget(pages []uint64)
	// Identify returns a number for the code at an address, or UnknownCode if there is none. The code is the current
	// code, or the code at the time its page was built. If the page has been forgotten, its code still counts as long
	// as at, the time at which the code ran (CLOCK_MONOTONIC, ns), is before that. Places for which Lines returns the
	// same result may share a number. If the address later has other code, that code has another number.
	Identify(vaddr, at uint64) unwind.CodeID
	// Lines returns the functions at an identified place: the innermost first, then the functions that it was inlined
	// into, each with the line of the call. It returns none if they are unknown or forgotten: Trim forgets places that
	// were not identified since the call before it. The result is shared: do not modify it.
	Lines(id unwind.CodeID) []Line
	// Close frees the remembered data. Do not use the code afterwards.
	Close()

	// Evaluates reports whether a native frame at an ELF virtual address runs a function of the language, as frames in
	// Library.Evaluation do, and has the words that identify the function. It returns false while the frame is being
	// set up or torn down.
	Evaluates(vaddr uint64) bool
	// Frozen reports whether the caller of the code at an ELF virtual address is in the runtime's heap at time at
	// (CLOCK_MONOTONIC, ns); the frames that follow on the stack are then not its callers. returned reports whether
	// vaddr is only the return address of such a caller, not a frame of its own.
	Frozen(vaddr, at uint64) (frozen, returned bool)
	// Freezes reports whether the code at leaf may be about to leave frames that the runtime has copied to the heap:
	// then the frames are both on the stack and in the heap. top is the address in the innermost frame in the heap.
	Freezes(leaf, top, at uint64) bool
}

// Line is a function and a line in it. All strings are valid UTF-8.
type Line struct {
	Function  string
	File      string // source file, "" if unknown
	StartLine int    // first line of the function, 0 if unknown
	Line      int    // 0 if unknown
}

// Base returns the process address of ELF virtual address 0 in code that starts at low. Pages of every size start
// there.
func Base(low uint64) uint64 { return low &^ (1<<unwind.MaxPageShift - 1) }
