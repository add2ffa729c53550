package sampler

import (
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/object/debugfile"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
)

// ThreadMemory is the memory of a process that contains the stacks of a thread.
type ThreadMemory interface {
	unwind.Stack
	chain.Memory
}

// maxReadings is how often the functions of a stack are read, each time for some frames, see engine.MaxReads.
const maxReadings = 24

// Threads completes stacks of threads that do not run, and knows the executables of the frames. It is safe for
// concurrent use.
type Threads struct {
	tracker *process.Tracker

	mu        sync.Mutex
	completer completer
}

func newThreads(t *process.Tracker) *Threads {
	out := &Threads{tracker: t, completer: newCompleter(t)}
	out.completer.merger.Stopped = true
	return out
}

// Executable returns an executable by its number in frames, nil if it was swept.
func (t *Threads) Executable(id unwind.ExeID) *process.Executable { return t.tracker.Executable(id) }

// JITCode returns the code of a language runtime that an executable stands for, and false
// for a file.
func (t *Threads) JITCode(exe unwind.ExeID) (*process.JITCode, bool) { return t.tracker.JITCode(exe) }

// Interpreter returns the interpreter whose functions an executable stands for, and false for
// a file.
func (t *Threads) Interpreter(exe unwind.ExeID) (*engine.Interpreter, bool) {
	return t.tracker.Interpreter(exe)
}

// Source returns the file that has the names of e, most often its own file.
func (t *Threads) Source(e *process.Executable) process.Source { return t.tracker.Source(e) }

// DebugFiles finds separate debug files.
func (t *Threads) DebugFiles() *debugfile.Finder { return t.tracker.DebugFiles() }

// CompleteThread returns a sample of a thread that is on no CPU: it walks the thread's stack from its registers, and
// reads the frames that language runtimes keep. The sample is right if the thread has not run until CompleteThread
// returns. It has no Target, and the caller owns it. CompleteThread is safe for concurrent use, also with Run.
func (c *Threads) CompleteThread(t *kernel.Thread, m ThreadMemory) *Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sample *Sample
	unread := 0
	for range maxReadings {
		sample = c.completer.thread(t, m)
		before := unread
		unread = unreadFunctions(sample.Interpreted)
		if unread == 0 || unread == before {
			break
		}
	}
	sample.Interpreted = slices.Clone(sample.Interpreted)
	sample.Stack = kernel.Stack{}
	return sample
}

// CompleteHit returns a sample of a probe's hit. The memory of language runtimes has changed since the hit, so the
// sample has the functions of the hit's Walk. It has no Target, and the caller owns it. CompleteHit is safe for
// concurrent use, also with Run.
func (c *Threads) CompleteHit(h *kernel.ProbeHit) *Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	sample := &Sample{Sample: &kernel.Sample{
		Time: h.Time, PID: h.PID, TID: h.TID, CPU: h.CPU, Kernel: slices.Clone(h.Kernel),
		Outcome: unwind.NoUserRegisters,
	}}
	if h.InUser {
		// As if the kernel had missed a table at the leaf.
		sample.Regs, sample.Stack = h.UnwindRegs(), kernel.StackIn(h.Memory())
		sample.User = []kernel.Frame{{Vaddr: sample.Regs.PC}}
		sample.Outcome, sample.FromLeaf = unwind.PageMissing, true
	}
	if h.Walk != nil {
		useWalk(sample.Sample, h)
	}
	c.completer.complete(sample)
	if sample.Outcome == unwind.PageMissing {
		sample.Outcome = unwind.UnreadableStack // a failed read of the stack stopped the walk
	}
	sample.Comm = sample.ProcessComm // perf has no names of threads
	sample.Interpreted = slices.Clone(sample.Interpreted)
	sample.Stack = kernel.Stack{}
	return sample
}

// useWalk sets a sample to the walk that the kernel made at a hit. The sample then owns the walk. Native frames of an
// incomplete walk are walked again.
func useWalk(s *kernel.Sample, h *kernel.ProbeHit) {
	s.Chain, s.Generation = h.Walk.Chain, h.Walk.Generation
	if !h.Walk.Outcome.Complete() {
		return
	}
	walked := h.Walk.User
	if h.Leaves && len(walked) > 1 {
		walked = walked[1:]
	}
	s.User, s.Outcome, s.FromLeaf = slices.Clone(walked), h.Walk.Outcome, false
	if h.Return {
		s.User[0].Flags |= kernel.ReturnAddress
	}
}

// unreadFunctions counts the frames whose functions are not known.
func unreadFunctions(frames []kernel.Frame) (n int) {
	for _, f := range frames {
		if f.Flags&(kernel.Interpreted|kernel.UnnamedJIT) != 0 && f.Code == unwind.UnknownCode {
			n++
		}
	}
	return n
}

// thread makes a sample of a thread.
func (c *completer) thread(t *kernel.Thread, m ThreadMemory) *Sample {
	sample := &Sample{Sample: &kernel.Sample{
		Time: clock.Monotonic(), PID: t.PID, TID: t.TID, CPU: t.CPU, Comm: t.Comm,
		Kernel: slices.Clone(t.Kernel), Outcome: t.Outcome, Regs: t.Regs, Stack: kernel.StackIn(m),
	}}
	if t.Outcome == unwind.Unset {
		// As if the kernel had missed a table at the leaf.
		sample.User = []kernel.Frame{{Vaddr: t.Regs.PC}}
		sample.Outcome, sample.FromLeaf = unwind.PageMissing, true
		c.readChain(sample.Sample, t.ThreadPointer, m)
	}
	c.complete(sample)
	if sample.Outcome == unwind.PageMissing {
		sample.Outcome = unwind.UnreadableStack // a failed read of the stack stopped the walk
	}
	return sample
}

// readChain adds the frames that the process's interpreter keeps of a thread.
func (c *completer) readChain(s *kernel.Sample, threadPointer uint64, m ThreadMemory) {
	view := c.tracker.At(s.PID, s.Time)
	by, ok := view.Runtime()
	if !ok || by.Interpreter == nil {
		return
	}
	s.Chain.End = by.ReadChain(s.TID, threadPointer, m, func(words []uint64, cookie uint64) {
		s.Chain.Frames = append(s.Chain.Frames, kernel.ChainFrame{Words: slices.Clone(words), Cookie: cookie})
	})
	if s.Chain.End != language.ChainNone {
		s.Chain.Interpreter = by.ID()
	}
}

// AwaitRuntimes waits until the language runtimes of a process are known, or known to be unavailable, or patience has
// passed.
func (t *Threads) AwaitRuntimes(pid uint32, patience time.Duration) {
	t.tracker.AwaitRuntimes(pid, patience)
}

// Memory returns the memory of a process. A read does not wait for it long, see language.ErrBusy.
func (t *Threads) Memory(pid uint32) language.Memory { return t.tracker.Memory(pid) }

// Mapped calls yield with the mappings of the executables that want accepts, in all live processes. Neither function
// may call the Threads.
func (t *Threads) Mapped(want func(*process.Executable) bool, yield func(process.FileMapping)) {
	t.tracker.Mapped(want, yield)
}
