package process

import (
	"strings"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Interpreter is an interpreter of a language, in all processes where its frames are found in the same way. An
// executable without a file stands for its functions: the ELF virtual address of a frame is the offset in the function,
// and the frame's code is the number of the function. Safe for concurrent use.
type Interpreter struct {
	library language.Library
	runs    language.Interpreter  // nil if its functions cannot be named
	unnamed language.UnnamedError // stands for the functions if they cannot be named
	id      uint32                // number in samples; 0 if the store does not have the interpreter
	number  uint16                // number in the store
	exe     *Executable

	functions functions
	machine   machineCodes

	// Guarded by the registry.
	used time.Time
}

// Name returns the name that stands for the file of the functions.
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

// ID returns the number by which samples identify the interpreter.
func (i *Interpreter) ID() uint32 { return i.id }

// Function returns the function with the number that a frame has, or false if it is not known.
func (i *Interpreter) Function(id unwind.CodeID) (language.Function, bool) {
	if f := i.functions.getFunction(id); f != nil {
		return *f, true
	}
	return language.Function{}, false
}

// Lines returns the functions of a frame of f, the innermost first. There are several if functions were inlined into
// machine code. returned says that the instruction at ip, the offset in the function, is a call.
func (i *Interpreter) Lines(f *language.Function, ip uint64, returned bool) []language.Line {
	if by, ok := i.runs.(language.Compiling); ok && f.Name != "" {
		return by.Lines(f, ip, returned)
	}
	line := language.Line{Function: f.Name, File: f.File, StartLine: f.StartLine}
	if i.runs != nil && f.Name != "" {
		line.Line = i.runs.Line(f, ip)
	}
	return []language.Line{line}
}

// HasNoFile reports whether native frames of code in no file also stand for its frames.
func (i *Interpreter) HasNoFile() bool { return i.runs.Spec().Slots.NoFile }

// HasSlots reports whether native frames stand for its frames. The last word of such a frame is the number of the
// native frame.
func (i *Interpreter) HasSlots() bool { return i.runs != nil && i.runs.Spec().Slots != nil }

// Frame decodes the words of a frame.
func (i *Interpreter) Frame(words []uint64) language.Frame { return i.runs.Frame(words) }

// Unnamed returns the number of the placeholder frame for functions that cannot be named, or false if they can be
// named.
func (i *Interpreter) Unnamed() (unwind.CodeID, bool) {
	if i.runs != nil {
		return 0, false
	}
	return i.Text(i.unnamed.Frame), true
}

// Hint returns why functions cannot be named, and how to change that.
func (i *Interpreter) Hint() string { return i.unnamed.Hint }

// Made returns the number of the placeholder frame for JIT code without a known function, or false if such code is
// shown as in any other process.
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
func (i *Interpreter) Text(text string) unwind.CodeID { return i.functions.addText(text, time.Now()) }
