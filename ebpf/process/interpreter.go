package process

import (
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Interpreter runs the functions of a language in all processes where its frames are found in
// the same way. An executable without a file stands for the functions: a frame's ELF virtual
// address there is where in the function it is, and its code is the function's number. Safe
// for concurrent use.
type Interpreter struct {
	library runtime.Library
	runs    runtime.Interpreter  // nil: its functions cannot be named
	unnamed runtime.UnnamedError // what stands for them then
	id      uint32               // that samples carry; 0: the store does not know it
	number  uint16               // in the store
	exe     *Executable

	functions functions
	machine   machineCodes

	// Guarded by the registry.
	used time.Time
}

// Name is what stands for the file of the functions.
func (i *Interpreter) Name() string { return i.exe.Path }

// Languages of frames, see [Interpreter.Language].
const (
	Python = "python"
	V8     = "V8"   // JavaScript
	Java   = "java" // interpreted methods
)

// Language returns the first word of the name: "python".
func (i *Interpreter) Language() string {
	language, _, _ := strings.Cut(strings.Trim(i.Name(), "[]"), " ")
	return language
}

// Exe returns the ID of the executable that stands for the functions.
func (i *Interpreter) Exe() unwind.ExeID { return i.exe.ID }

// ID returns the number that samples carry of it.
func (i *Interpreter) ID() uint32 { return i.id }

// Function returns a function that frames have the number of, and false if it is not known.
func (i *Interpreter) Function(id unwind.CodeID) (runtime.Function, bool) {
	if f := i.functions.get(id); f != nil {
		return *f, true
	}
	return runtime.Function{}, false
}

// Lines returns the functions that a frame of a function stands for, the innermost first: there are others where some
// were inlined into machine code. returned says that ip, where in the function it is, is of a call.
func (i *Interpreter) Lines(f *runtime.Function, ip uint64, returned bool) []runtime.Line {
	if by, ok := i.runs.(runtime.Compiling); ok && f.Name != "" {
		return by.Lines(f, ip, returned)
	}
	line := runtime.Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	if i.runs != nil && f.Name != "" {
		line.Line = i.runs.Line(f, ip)
	}
	return []runtime.Line{line}
}

// HasNoFile reports whether native frames of code in no file stand for its frames.
func (i *Interpreter) HasNoFile() bool { return i.runs.Spec().Slots.NoFile }

// HasSlots reports whether native frames stand for its frames, whose numbers are the last of their words.
func (i *Interpreter) HasSlots() bool { return i.runs != nil && i.runs.Spec().Slots != nil }

// Frame says what the words of a frame mean.
func (i *Interpreter) Frame(words []uint64) runtime.Frame { return i.runs.Frame(words) }

// Unnamed returns the number of the frame that stands for those that cannot be named, and
// false if they can.
func (i *Interpreter) Unnamed() (unwind.CodeID, bool) {
	if i.runs != nil {
		return 0, false
	}
	return i.Text(i.unnamed.Frame), true
}

// Hint says why functions cannot be named, and what to do.
func (i *Interpreter) Hint() string { return i.unnamed.Hint }

// Made returns the number of the frame that stands for code in no file of which no function is known, and false if
// that is shown as in any process.
func (i *Interpreter) Made() (unwind.CodeID, bool) {
	switch {
	case i.unnamed.Made != "":
		return i.Text(i.unnamed.Made), true
	case i.HasSlots() && i.HasNoFile():
		return i.Text(strings.TrimSuffix(i.Name(), "]") + " code]"), true
	}
	return 0, false
}

// Text returns the number of a frame that is only text.
func (i *Interpreter) Text(text string) unwind.CodeID { return i.functions.text(text, time.Now()) }
