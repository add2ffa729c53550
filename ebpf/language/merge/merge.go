// Package merge inserts the frames of languages into the native frames of a stack.
package merge

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/headwater/headwater/ebpf/common/clock"
	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/language/chain"
	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Merger inserts the frames of language runtimes into the native frames of samples, one sample at a time. It holds
// scratch memory and counters.
type Merger struct {
	Engine *engine.Engine
	// PathOf returns the path of the file of an executable, "" if it is forgotten.
	PathOf func(unwind.ExeID) string
	// Stopped says that the threads do not run while they are read.
	Stopped bool

	merged  []kernel.Frame
	decoded []language.Frame
	shape   []chain.Frame
	codes   []engine.CodeAt // of each decoded frame, Address 0 if it has none
	places  []uint64        // in codes, one for each
	ids     []unwind.CodeID
	slots   []kernel.ChainFrame    // of a stack: read by the kernel, and from number firstLate on by user space
	machine []engine.MachineCodeAt // of the frames that run machine code

	firstLate     int
	sampled       time.Time // time of the sample
	codeUnchanged bool      // code objects that late slots lead to directly are unchanged since the sample

	file     unwind.ExeID  // of the interpreter's functions
	jitLabel unwind.CodeID // stands for code in no file without a known function ...
	hasLabel bool          // ... if there is such an ID
	unnamed  uint64        // frames of a stack without a known function

	libraries switchLibraries
	groups    []switchGroup

	counts   counts
	unplaced atomic.Uint64
}

// Unplaced returns how many samples have frames of an interpreter whose place among the native frames is unknown. Safe
// for concurrent use.
func (x *Merger) Unplaced() uint64 { return x.unplaced.Load() }

// Merge returns the user frames of a sample with the frames of the process's runtime inserted; nil if it has none. They
// are valid until the next call. Merge may end the stack of the sample earlier.
func (x *Merger) Merge(by *engine.ProcessRuntime, s *kernel.Sample) []kernel.Frame {
	if by.Interpreter != nil && by.Rests() {
		x.shape = x.shape[:0]
		x.place(by, s)
		x.counts.addStats(by.Name(), LanguageStats{NotRead: uint64(len(s.Chain.Frames))})
		return x.withOne(by, by.NotRead(), s)
	}
	if s.Chain.Interpreter != 0 && len(s.Chain.Codes) > 0 {
		if i := x.Engine.ByID(s.Chain.Interpreter); i != nil {
			i.Carried(s.PID, s.Chain.Codes)
		}
	}
	if by.Interpreter != nil {
		if id, ok := by.Unnamed(); ok {
			frames := x.withOne(by, id, s)
			x.counts.addStats(by.Name(), LanguageStats{NotNamed: x.unnamed, Hint: by.Hint()})
			return frames
		}
	}
	i := x.Engine.ByID(s.Chain.Interpreter)
	if i == nil && s.Chain.Interpreter == 0 {
		i = by.Interpreter
	}
	if i == nil || len(s.Chain.Frames) == 0 && !i.HasSlots() {
		x.shape = x.shape[:0]
		x.place(by, s) // finds the end of the stack
		return x.withJITLabels(by, s)
	}
	if !by.Is(i) { // the process differs from the other processes of its program
		x.unplaced.Add(1)
		return nil
	}
	if i.HasSlots() {
		return x.withSlots(i, by, s)
	}
	return x.withChain(i, by, s)
}

// withSlots inserts each frame that a native frame stands for next to the native frame, or in its place if the native
// code is in no file.
func (x *Merger) withSlots(i *engine.Interpreter, by *engine.ProcessRuntime, s *kernel.Sample) []kernel.Frame {
	x.findSlots(i, by, s)
	if len(x.slots) == 0 {
		return x.withJITLabels(by, s)
	}
	x.decode(i, x.slots)
	x.lookUp(i, by, s)
	x.findMachineCode(i, s)
	x.startStack(by)
	next := 0
	for at, f := range s.User {
		for next < len(x.slots) && slotOf(&x.slots[next]) < at {
			next++
		}
		matches := next < len(x.slots) && slotOf(&x.slots[next]) == at && !x.isOfCaller(next, s.User) &&
			x.matchesNative(i, by, s.PID, next, at, &f)
		inJIT := matches && f.OutsideFile()
		if !inJIT {
			f = x.labelJITFrame(f)
		}
		if at == 0 && !inJIT { // a part of the runtime that the function has called, perhaps without a frame
			x.merged = append(x.merged, f)
		}
		var m *engine.MachineCodeAt
		if inJIT {
			m = x.machineOf(next)
		}
		switch {
		case m != nil:
			x.counts.addStats(i.Name(), LanguageStats{Named: 1})
			x.merged = append(x.merged, kernel.Frame{
				Vaddr: m.IP, Exe: i.Exe(), Code: m.ID, Flags: kernel.Interpreted | f.Flags&kernel.ReturnAddress,
			})
		case matches:
			x.addRun(i, chain.Placed{From: next, To: next + 1})
		}
		if at > 0 && !inJIT {
			x.merged = append(x.merged, f)
		}
	}
	if x.unnamed > 0 {
		x.countUnnamed(by)
	}
	return x.merged
}

// findSlots finds the frames that may stand for other frames: the ones that the kernel has read, and some of the frames
// that user space found. The latter are read after the sample, so matchesNative checks them more strictly.
func (x *Merger) findSlots(i *engine.Interpreter, by *engine.ProcessRuntime, s *kernel.Sample) {
	x.slots = x.slots[:0]
	for _, f := range s.Chain.Frames {
		if slotOf(&f) < s.Walked {
			x.slots = append(x.slots, f)
		}
	}
	x.firstLate = len(x.slots)
	var missing []engine.Slot
	for at, fp := range s.FPs[:min(len(s.FPs), len(s.User))] {
		f := &s.User[at]
		read := x.firstLate > 0 && at <= slotOf(&x.slots[x.firstLate-1])
		if fp != 0 && !read && (f.Exe == 0 && i.HasNoFile() || by.RunsFunctions(f.Exe, f.Lookup())) {
			missing = append(missing, engine.Slot{Number: at, FP: fp})
		}
	}
	if len(missing) == 0 { // nearly always
		return
	}
	x.sampled = time.Now().Add(-time.Duration(clock.Monotonic() - s.Time))
	for _, slot := range i.ReadSlots(s.PID, s.Stack, missing) {
		x.slots = append(x.slots, kernel.ChainFrame{Words: append(slot.Words, uint64(slot.Number)), Cookie: slot.Cookie})
	}
	x.codeUnchanged = i.LeadsToCode() && (time.Since(x.sampled) < soonEnough || by.Kept(i, x.sampled))
}

// startStack prepares for a new stack.
func (x *Merger) startStack(by *engine.ProcessRuntime) {
	x.merged, x.unnamed, x.hasLabel = x.merged[:0], 0, false
	if by.Interpreter != nil {
		x.file = by.Exe()
		x.jitLabel, x.hasLabel = by.UnnamedCode()
	}
}

// labelJITFrame marks a frame in code of no file as code that the runtime may have generated.
func (x *Merger) labelJITFrame(f kernel.Frame) kernel.Frame {
	if x.hasLabel && f.Exe == 0 {
		f.Exe, f.Code, f.Flags = x.file, x.jitLabel, f.Flags|kernel.UnnamedJIT
		x.unnamed++
	}
	return f
}

// withJITLabels marks all frames in code of no file as labelJITFrame does; it returns nil if there are none.
func (x *Merger) withJITLabels(by *engine.ProcessRuntime, s *kernel.Sample) []kernel.Frame {
	x.startStack(by)
	for _, f := range s.User {
		x.merged = append(x.merged, x.labelJITFrame(f))
	}
	if x.unnamed == 0 {
		return nil
	}
	x.countUnnamed(by)
	return x.merged
}

// countUnnamed counts the frames that labelJITFrame has marked.
func (x *Merger) countUnnamed(by *engine.ProcessRuntime) {
	if makers := by.JoinedMakers(); makers != "" && x.unnamed > 0 {
		hint := "functions of " + makers + " are JIT code, which has no names unless a perf map has them"
		x.counts.addStats(makers, LanguageStats{NotNamed: x.unnamed, Hint: hint})
		return
	}
	x.counts.addStats(by.Name(), LanguageStats{NotRead: x.unnamed})
}

// findMachineCode finds the machine code of the frames that are in no file.
func (x *Merger) findMachineCode(i *engine.Interpreter, s *kernel.Sample) {
	x.machine = x.machine[:0]
	for n := range x.slots {
		at := slotOf(&x.slots[n])
		if at >= len(s.User) || s.User[at].Exe != 0 || x.codes[n].Address == 0 {
			continue
		}
		x.machine = append(x.machine, engine.MachineCodeAt{
			PC: s.User[at].Vaddr, Caller: s.User[at].Flags&kernel.ReturnAddress != 0, Of: x.codes[n], Frame: n,
		})
	}
	i.MachineCode(s.PID, x.machine)
}

// machineOf returns the machine code of frame n, nil if it is not known.
func (x *Merger) machineOf(n int) *engine.MachineCodeAt {
	for at := range x.machine {
		if m := &x.machine[at]; m.Frame == n && m.ID != unwind.UnknownCode {
			return m
		}
	}
	return nil
}

// slotOf returns the number of the native frame of f: its last word.
func slotOf(f *kernel.ChainFrame) int { return int(f.Words[len(f.Words)-1]) }

// isOfCaller reports whether frame n was read for the leaf, a part of the runtime that has no frame of its own, and
// again for the leaf's caller, which is in code of no file. The frame pointer of both is the caller's.
func (x *Merger) isOfCaller(n int, native []kernel.Frame) bool {
	if n+1 >= len(x.slots) || slotOf(&x.slots[n]) != 0 || slotOf(&x.slots[n+1]) != 1 {
		return false
	}
	leaf, caller := &x.slots[n], &x.slots[n+1]
	last := len(leaf.Words) - 1
	return !native[0].OutsideFile() && native[1].OutsideFile() && leaf.Cookie == caller.Cookie &&
		slices.Equal(leaf.Words[:last], caller.Words[:last])
}

// matchesNative reports whether native frame number at stands for frame n, and frame n has a name.
func (x *Merger) matchesNative(
	i *engine.Interpreter, by *engine.ProcessRuntime, pid uint32, n, at int, native *kernel.Frame,
) bool {
	f := &x.decoded[n]
	if f.Hidden || x.ids[n] == unwind.UnknownCode {
		return false
	}
	if native.Exe == 0 {
		if !i.HasNoFile() {
			return false
		}
		f.IP = language.NoIP // such code keeps other data there
		return n < x.firstLate || x.machineOf(n) != nil
	}
	return (!f.Made || at == 0) && x.isFromSampleTime(i, pid, n) && by.RunsFunctions(native.Exe, native.Lookup())
}

// soonEnough is how long after a sample a function that a frame leads to directly is assumed to be unchanged: to change
// it, the frame would have to return, and the runtime to unload the function and load a different one at its address.
const soonEnough = 2 * time.Millisecond

// isFromSampleTime reports whether the code object of frame n is the one that it had at the time of the sample.
func (x *Merger) isFromSampleTime(i *engine.Interpreter, pid uint32, n int) bool {
	return n < x.firstLate || x.Stopped || x.decoded[n].Proved ||
		x.codeUnchanged || i.LeadsToCode() && i.KnownAt(pid, x.codes[n], x.sampled)
}

// withOne inserts one frame, for all frames without a name, next to each native frame that runs them, and marks frames
// in code of no file as labelJITFrame does.
func (x *Merger) withOne(by *engine.ProcessRuntime, id unwind.CodeID, s *kernel.Sample) []kernel.Frame {
	x.startStack(by)
	for _, f := range s.User {
		if by.RunsFunctions(f.Exe, f.Lookup()) {
			x.merged = append(x.merged, kernel.Frame{Exe: by.Exe(), Code: id, Flags: kernel.Interpreted})
			x.unnamed++
		}
		x.merged = append(x.merged, x.labelJITFrame(f))
	}
	return x.merged
}

// withChain inserts the frames of a chain next to the native frames that run them.
func (x *Merger) withChain(i *engine.Interpreter, by *engine.ProcessRuntime, s *kernel.Sample) []kernel.Frame {
	x.decode(i, s.Chain.Frames)
	placed, ok := x.place(by, s)
	if !ok {
		x.unplaced.Add(1)
		return nil
	}
	x.lookUp(i, by, s)
	x.startStack(by)
	evaluation, named := 0, false
	for _, f := range s.User {
		switch {
		case by.RunsFunctions(f.Exe, f.Lookup()):
			named = x.addPlaced(i, by, placed, evaluation)
			evaluation++
		case named && f.Exe == 0:
			// A trampoline of -X perf, which has the function's name in a perf map: no other code outside files calls
			// the evaluation loop.
			named = false
			continue
		default:
			named = false
			f = x.labelJITFrame(f)
		}
		x.merged = append(x.merged, f)
	}
	if x.unnamed > 0 {
		x.countUnnamed(by)
	}
	return x.merged
}

// decode decodes the frames of a chain.
func (x *Merger) decode(i *engine.Interpreter, frames []kernel.ChainFrame) {
	x.decoded, x.shape, x.codes = x.decoded[:0], x.shape[:0], x.codes[:0]
	for _, frame := range frames {
		f := i.Frame(frame.Words)
		x.decoded = append(x.decoded, f)
		x.shape = append(x.shape, chain.Frame{Last: f.Last, Hidden: f.Hidden})
		code := engine.CodeAt{Address: f.Code, Cookie: frame.Cookie}
		if f.Hidden {
			code.Address = 0
		}
		x.codes = append(x.codes, code)
	}
}

// lookUp looks up the functions of the frames.
func (x *Merger) lookUp(i *engine.Interpreter, by *engine.ProcessRuntime, s *kernel.Sample) {
	x.places = x.places[:0]
	for n := range x.decoded {
		x.places = append(x.places, x.decoded[n].IP)
	}
	x.ids = i.Functions(s.PID, x.codes, x.places, x.ids[:0])
	for n, place := range x.places {
		x.decoded[n].IP = place
	}
	by.Judge(i)
}

// native returns the facts about native frames that decide where the frames of the chain belong. whole says that frames
// is the whole stack.
func (x *Merger) native(by *engine.ProcessRuntime, frames []kernel.Frame, whole bool) chain.Native {
	n := chain.Native{Whole: whole}
	for at, f := range frames {
		if !by.RunsFunctions(f.Exe, f.Lookup()) {
			continue
		}
		n.Evaluations++
		if at == 0 {
			enters, known := by.Enters(f.Lookup())
			n.Leaf, n.LeafEnters, n.LeafMay = true, enters, !known
		}
	}
	return n
}

// addPlaced adds the frames of the native frame with a number, among the native frames that run functions. It reports
// whether all have names. A native frame beyond the placed ones runs functions of another chain, which is not read.
func (x *Merger) addPlaced(
	i *engine.Interpreter, by *engine.ProcessRuntime, placed []chain.Placed, number int,
) (named bool) {
	if number < len(placed) {
		n := x.addRun(i, placed[number])
		return n.Named > 0 && n.NotRead == 0
	}
	if by.Interpreter != nil {
		x.merged = append(x.merged, kernel.Frame{Exe: i.Exe(), Code: by.NotRead(), Flags: kernel.Interpreted})
		x.counts.addStats(i.Name(), LanguageStats{NotRead: 1})
	}
	return false
}

// addRun adds the frames of one native frame, and counts them.
func (x *Merger) addRun(i *engine.Interpreter, run chain.Placed) (n LanguageStats) {
	for at := run.From; at < run.To; at++ {
		f := x.decoded[at]
		if f.Hidden {
			continue
		}
		frame := kernel.Frame{Vaddr: f.IP, Exe: i.Exe(), Flags: kernel.Interpreted}
		if f.Code == 0 {
			frame.Code = i.Text(f.Text)
		} else {
			frame.Code = x.ids[at]
		}
		if frame.Code == unwind.UnknownCode {
			frame.Vaddr = 0 // no line either, so that all unknown functions are one
			n.NotRead++
		} else {
			n.Named++
		}
		x.merged = append(x.merged, frame)
	}
	x.counts.addStats(i.Name(), n)
	return n
}
