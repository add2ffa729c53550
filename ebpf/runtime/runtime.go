// Package runtime is the contract between the profiler and the language runtimes that it
// knows. A runtime makes code while a process runs; it says how that code is unwound and
// what it is called. Nobody else has knowledge of a language: package process finds the
// runtimes of a process and asks them, and everything above sees frames with a CodeID.
//
// How to add a language:
//
//  1. Write a package ebpf/runtime/NAME with three types: a Language that detects the
//     runtime's file, a Library that attaches to a process, and the Code that Attach returns.
//     All that they read is a process's memory, which may change at any moment or be hostile:
//     check it, bound the work, fuzz it.
//  2. Add one line to the table in ebpf/runtime/languages.
//
// ebpf/runtime/jvm is the example.
//
// One file is a runtime in many processes, so there are three steps, from what is shared to
// what is not:
//
//	Language.Detect(file)     -> Library   once for each file that a process maps
//	Library.Attach(process)   -> Code      once for each process, again while it is not ready
//	Code.Page, Identify, Lines             for each page of rows, frame and name
package runtime

import (
	"errors"
	"io"
	"time"

	"github.com/headwater/headwater/ebpf/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Errors of Attach that say more than that it failed.
var (
	// ErrNotReady says that the runtime has not begun: attach again a little later.
	ErrNotReady = errors.New("the runtime has not begun yet")
	// ErrUnknown says that the file is no runtime of the language after all. It is not
	// reported as a failure.
	ErrUnknown = errors.New("not a known language runtime")
)

// ErrBusy says that the memory of a process cannot be read at the moment: it may be soon.
var ErrBusy = errors.New("memory cannot be read now")

// Language knows the runtimes of one language. Safe for concurrent use.
type Language interface {
	// Detect returns the runtime that a file is, nil if there is none. path is what a process
	// that has mapped it calls it. The file is valid during the call only.
	Detect(path string, file *elffile.File) Library
}

// Library is a file that is a language runtime, and what is the same in all processes that
// have mapped it. Safe for concurrent use.
type Library interface {
	// Attach returns the code that the runtime makes in a process. The error is ErrNotReady,
	// ErrUnknown, or says why the code will never be known.
	Attach(p Process) (Code, error)
}

// Process is a process that has mapped a Library.
type Process struct {
	PID    uint32
	Bias   uint64 // where the library is mapped, less its ELF virtual addresses
	Memory Memory
}

// Memory is the memory of a process, by address; procfs.Memory is one. An error is ErrBusy
// where nothing can be said of the memory.
type Memory interface {
	io.ReaderAt
	// ReadEach reads size bytes at each of the addresses to b, and returns how many of
	// them could be read before the first that could not. The only error is ErrBusy.
	ReadEach(addrs []uint64, size int, b []byte) (int, error)
}

// RowSource is where the rows of an executable come from: a file, or a runtime. Addresses
// are ELF virtual addresses, or what stands for them (see Code.Base). One goroutine uses it
// at a time.
type RowSource interface {
	// Page builds page n of those that cover 1<<shift bytes each. There may be a page along
	// with an error: walks end there, and do not ask for it again.
	Page(n uint64, shift uint8) (*unwind.Page, error)
	// CallFrame returns what call frame information states about an address, and false
	// where nothing is stated.
	CallFrame(vaddr uint64) (unwind.CallFrame, bool, error)
	// Changed returns those of the pages, built before, that must be built again. It forgets
	// them. Where that cannot be found out now, pages are believed for a moment.
	Changed(pages []uint64) []uint64
	// Trim frees what only building pages needs and nobody has used since a time. It is
	// called a few times a minute.
	Trim(since time.Time)
}

// Code is the code that a runtime makes in one process while it runs. Where it may lie does
// not change. One goroutine uses it at a time.
type Code interface {
	RowSource
	// Path is what the executable is called that stands for the code, in brackets.
	Path() string
	// Bounds returns the addresses between which the code lies.
	Bounds() (low, high uint64)
	// Built returns the pages that were built and not forgotten since.
	Built() []uint64
	// Forget forgets pages.
	Forget(pages []uint64)
	// Identify returns a number for the code that is at an address now, or was when its page
	// was built, also of a page that was forgotten after a time, CLOCK_MONOTONIC in ns, at which
	// the code ran: UnknownCode if there is none. Places that Lines says the same of may have
	// one number. The same address may be other code later, which then has another number.
	Identify(vaddr, at uint64) unwind.CodeID
	// Lines returns the functions at a place that was identified: the innermost first, then
	// those that it was inlined into, each with the line of the call. None if they are not
	// known, or were forgotten since: of what was identified, Trim keeps what the call before
	// it has not seen. The result is shared: do not modify it.
	Lines(id unwind.CodeID) []Line
	// Close gives back what is remembered. The code is of no use afterwards.
	Close()
}

// Line is a function and a line in it. All strings are valid UTF-8.
type Line struct {
	Function  string
	File      string // of its source, "" if unknown
	StartLine int    // where the function begins; 0 if unknown
	Line      int    // 0 if unknown
}

// Base returns the address that ELF virtual address 0 stands for in code from low on: pages
// of every size begin there.
func Base(low uint64) uint64 { return low &^ (1<<unwind.MaxPageShift - 1) }
