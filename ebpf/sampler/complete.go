package sampler

import (
	"slices"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language/merge"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/process/target"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Sample is a finished sample: its user part is as complete as possible. It is valid until the function that gets it
// returns.
type Sample struct {
	*kernel.Sample

	Target      *target.Target // as Options.Target returned it
	ProcessComm string         // name of the process at that time, which is the name of its first thread
	OutsideFile bool           // some user frame is in code that is in no file
	Guessed     bool           // some user frame has the flag FramePointer: callers before it may be missing
	// Interpreted is User with the frames of interpreters inserted, leaf first; nil if there are none.
	Interpreted []kernel.Frame
	Language    string // of the interpreters' frames, "" if there are none
	// Runtime is the file that runs functions of a language in the process, if known: python3.11, libjvm.so.
	Runtime unwind.ExeID
	// Program is the file that the process runs, 0 if that is not known.
	Program unwind.ExeID
	// Thread is, for samples of threads that are on no CPU, the thread as it was, without Kernel; else nil.
	Thread *kernel.Thread
	// Waker is, for such samples, the task that ended the wait; nil if it is not known, or the wait is not over.
	Waker *kernel.Waker
}

// Frames returns all user frames, including frames of interpreters, leaf first.
func (s *Sample) Frames() []kernel.Frame {
	if s.Interpreted != nil {
		return s.Interpreted
	}
	return s.User
}

// Copy returns a copy whose fields may be changed, which shares the frames with s.
func (s *Sample) Copy() *Sample {
	shown, inner := *s, *s.Sample
	shown.Sample = &inner
	return &shown
}

// Strip removes the user part of the stack, and the kernel part, unless they are wanted.
func (s *Sample) Strip(user, inKernel bool) {
	if !inKernel {
		s.Kernel = nil
	}
	if !user {
		s.User, s.Interpreted, s.Outcome = nil, nil, unwind.NotCollected
	}
}

// completer completes stacks, one at a time.
type completer struct {
	tracker *process.Tracker
	view    process.View // of the sample's process
	merger  merge.Merger
}

func newCompleter(t *process.Tracker) completer {
	path := func(exe unwind.ExeID) string {
		if e := t.Executable(exe); e != nil {
			return e.Path
		}
		return ""
	}
	return completer{tracker: t, merger: merge.Merger{Engine: t.Languages(), PathOf: path}}
}

// complete completes a sample.
func (c *completer) complete(sample *Sample) {
	view := &c.view
	*view = c.tracker.AtExec(sample.PID, sample.Time, sample.Exec)
	dropVSyscall(sample.Sample)
	completeStack(c.tracker, view, sample.Sample)
	if !sample.Outcome.Complete() {
		recheck(view, sample.Sample)
	}
	endFiber(view, sample.Sample)
	endFrozen(view, sample.Sample)
	identify(view, sample.Sample)
	sample.Guessed = markGuesses(view, sample.Sample)
	for _, code := range view.Code() {
		c.merger.CountJITCode(code.Exe(), code.Name(), sample.Sample)
	}
	native := len(sample.User)
	runtime, ok := view.Runtime()
	sample.Interpreted = nil
	if ok {
		sample.Interpreted = c.merger.Merge(&runtime, sample.Sample)
	}
	if len(sample.User) < native { // the stack ends earlier
		isGuess := func(f kernel.Frame) bool { return f.Flags&kernel.FramePointer != 0 }
		sample.Guessed = slices.ContainsFunc(sample.User, isGuess)
	}
	sample.Program = view.Program()
	sample.Language, sample.Runtime = "", 0
	if ok {
		sample.Runtime = runtime.File
		if sample.Interpreted != nil && runtime.Interpreter != nil {
			sample.Language = runtime.Language()
		}
	}
	sample.OutsideFile = slices.ContainsFunc(sample.User, kernel.Frame.OutsideFile)
	if sample.Guessed && sample.Outcome.Complete() {
		sample.Outcome = unwind.Guessed
	}
	sample.ProcessComm = sample.Comm
	if comm := view.Comm(); comm != "" && (sample.TID != sample.PID || sample.Comm == "") {
		sample.ProcessComm = comm
	}
}

// markGuesses leaves the flag FramePointer only on the frames that are guesses, and reports whether there are any: only
// the frame pointer led to them, from code that may not keep one. V8's code keeps a frame pointer, also the code in
// V8's file. A guess is wrong if the call there is of another function; then the stack ends before it.
func markGuesses(view *process.View, s *kernel.Sample) (guessed bool) {
	frames := s.User
	by, ok := view.Runtime()
	keeps := ok && by.Interpreter != nil && by.Interpreter.HasSlots() && by.Interpreter.HasNoFile()
	for i := range frames {
		f := &frames[i]
		if f.Flags&kernel.FramePointer == 0 {
			continue
		}
		if i > 0 && keeps && (frames[i-1].Exe == 0 || frames[i-1].Exe == by.File) {
			f.Flags &^= kernel.FramePointer
			continue
		}
		if i > 0 && !view.MayCall(f.Exe, f.Vaddr, frames[i-1].Exe, frames[i-1].Lookup()) {
			s.User, s.Walked, s.Outcome = frames[:i], min(s.Walked, i), unwind.NoCall
			return guessed
		}
		guessed = true
	}
	return guessed
}

// endFiber completes a stack whose first function would return to code that ends the process.
func endFiber(view *process.View, s *kernel.Sample) {
	switch s.Outcome {
	case unwind.NoRow, unwind.NoCall, unwind.NoMapping, unwind.NoProgress, unwind.UnreadableStack, unwind.UnsupportedRule:
	default:
		return
	}
	if len(s.User) > 1 && !s.Regs.Exact && view.EndsProcess(s.Regs.PC) {
		s.Outcome = unwind.Complete
	}
}

// dropVSyscall removes the user frame in the vsyscall page, which has an address of the kernel, from the kernel's
// frames.
func dropVSyscall(s *kernel.Sample) {
	if last := len(s.Kernel) - 1; last >= 0 {
		if _, ok := process.VSyscall(s.Kernel[last]); ok {
			s.Kernel = s.Kernel[:last]
		}
	}
}
