package cpython

import (
	"errors"
	"fmt"

	"github.com/headwater/headwater/ebpf/language"
)

// FindFrames implements language.Library.
func (l *library) FindFrames(p language.Process) (language.FrameReader, error) {
	if l.err != nil {
		return nil, l.unnamed(l.err)
	}
	thread := l.thread
	if thread == nil {
		var err error
		if thread, err = l.slot.steps(p); err != nil {
			return nil, err
		}
	}
	switch err := l.check(p); {
	case errors.Is(err, errImplausible):
		return nil, l.unnamed(err)
	case l.layout.assumed && err != nil:
		return nil, language.ErrNotReady
	}
	return newInterpreter(l, thread), nil
}

// unnamed returns the error for a CPython whose functions cannot be named.
func (l *library) unnamed(err error) error {
	hint := fmt.Sprintf("CPython %s: %v", l.version(), err)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		hint = fmt.Sprintf("CPython %s is older than 3.8: its functions are not named", l.version())
	case l.layout != nil && l.layout.assumed:
		hint = fmt.Sprintf("CPython %s is newer than 3.%d, the newest version known here, and is not laid out like that: "+
			"use a newer Headwater", l.version(), newest())
	}
	return &language.UnnamedError{Frame: fmt.Sprintf("[python 3.%d code]", l.minor), Hint: hint}
}

// errNotBegun reports that the interpreter has no state yet that a layout could be checked with.
var errNotBegun = errors.New("the interpreter has not started")

// check follows the layout in the memory of a process. The error is errImplausible if the layout does not match; other
// errors mean that the check was not possible.
func (l *library) check(p language.Process) error {
	m := memory{p.Memory}
	interpreter, err := m.pointer(p.Bias + l.state + uint64(l.layout.offsetOf("runtime.interpreters")))
	if err != nil {
		return err
	}
	thread, err := m.pointer(interpreter + uint64(l.layout.offsetOf("interpreter.threads")))
	if err != nil {
		return err
	}
	owner, err := m.pointer(thread + uint64(l.layout.offsetOf("thread.interpreter")))
	if err != nil {
		return err
	}
	if owner != interpreter {
		return fmt.Errorf("%w: a thread of another interpreter", errImplausible)
	}
	if !l.layout.assumed {
		return nil
	}
	return l.checkFrames(m, thread)
}

// maxChecked is the number of frames that are read to check a layout.
const maxChecked = 64

// checkFrames follows the frames of a thread: each frame of a function must have a code object.
func (l *library) checkFrames(m memory, thread uint64) error {
	x := newInterpreter(l, nil)
	frame := thread
	var err error
	for _, field := range l.layout.listFields() {
		if frame, err = m.pointer(frame + uint64(l.layout.offsetOf(field))); err != nil {
			return err
		}
	}
	functions := 0
	for range maxChecked {
		words := make([]uint64, len(x.spec.Chain.Frame.Words))
		for i, w := range x.spec.Chain.Frame.Words {
			if words[i], err = m.u64(frame + uint64(x.spec.Chain.Frame.Blocks[0].Offset) + uint64(w.Offset)); err != nil {
				return fmt.Errorf("%w: %w", errImplausible, err)
			}
		}
		if f := x.Frame(words); !f.Hidden {
			if !x.isCode(m, f.Code) {
				return fmt.Errorf("%w: a frame without a code object", errImplausible)
			}
			functions++
		}
		if frame = words[wordPrevious]; frame == 0 {
			break
		}
	}
	if functions == 0 {
		return errNotBegun
	}
	return nil
}
