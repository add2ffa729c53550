package engine

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
	engine  *Engine
	library language.Library
	frames  language.FrameReader  // nil if its functions cannot be named
	unnamed language.UnnamedError // stands for the functions if they cannot be named
	id      uint32                // number in samples; 0 if the store does not have the interpreter
	number  uint16                // number in the store
	name    string
	exe     unwind.ExeID

	functions functions
	machine   machineCodes

	// Guarded by the registry.
	used time.Time
}

// Name returns the name that stands for the file of the functions.
func (i *Interpreter) Name() string { return i.name }

// Language returns the first word of the name: "python".
func (i *Interpreter) Language() string {
	language, _, _ := strings.Cut(strings.Trim(i.Name(), "[]"), " ")
	return language
}

// Exe returns the ID of the executable that stands for the functions.
func (i *Interpreter) Exe() unwind.ExeID { return i.exe }

// Number returns the number of the interpreter in the Store, 0 if its functions cannot be named.
func (i *Interpreter) Number() uint16 { return i.number }

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
	if i.frames != nil && f.Name != "" {
		return i.frames.Lines(f, ip, returned)
	}
	return []language.Line{{Function: f.Name, File: f.File, StartLine: f.StartLine}}
}

// HasNoFile reports whether native frames of code in no file also stand for its frames.
func (i *Interpreter) HasNoFile() bool { return i.frames.Spec().Slots.NoFile }

// HasSlots reports whether native frames stand for its frames. The last word of such a frame is the number of the
// native frame.
func (i *Interpreter) HasSlots() bool { return i.frames != nil && i.frames.Spec().Slots != nil }

// Frame decodes the words of a frame.
func (i *Interpreter) Frame(words []uint64) language.Frame { return i.frames.Frame(words) }

// Unnamed returns the number of the placeholder frame for functions that cannot be named, or false if they can be
// named.
func (i *Interpreter) Unnamed() (unwind.CodeID, bool) {
	if i.frames != nil {
		return 0, false
	}
	return i.Text(i.unnamed.Frame), true
}

// Hint returns why functions cannot be named, and how to change that.
func (i *Interpreter) Hint() string { return i.unnamed.Hint }

// UnnamedCode returns the number of the placeholder frame for JIT code without a known function, or false if such code
// is shown as in any other process.
func (i *Interpreter) UnnamedCode() (unwind.CodeID, bool) {
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
