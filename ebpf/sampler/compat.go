package sampler

import (
	"debug/elf"
	"encoding/binary"

	"github.com/headwater/headwater/ebpf/kernel"
	"github.com/headwater/headwater/ebpf/process"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/cfi"
)

// DWARF numbers of registers of i386 (System V psABI for Intel386, figure 2.14).
const (
	esp = 4
	ebp = 5
)

// i386Registers are the i386 DWARF numbers of the registers with the x86-64 numbers 0 to 7: rax, rdx, rcx, rbx, rsi,
// rdi, rbp, rsp.
var i386Registers = [...]uint16{0, 2, 1, 3, 6, 7, ebp, esp}

// walkCompat walks the stack of a 32-bit task on a 64-bit kernel, which the kernel copied but did not walk: by complete
// call frame information, or by frame pointers where there is none. Without a copy the sample stays as it is.
func walkCompat(t *process.Tracker, view *process.View, s *kernel.Sample) {
	if !s.Stack.Exists() || !s.Regs.Full {
		return
	}
	frame := cfi.Frame{PC: uint64(uint32(s.Regs.PC)), Exact: true}
	for i, number := range i386Registers {
		frame.Regs.Set(number, uint64(uint32(s.Regs.General[i])))
	}
	w := compatWalker{tracker: t, view: view, sample: s, memory: s.Stack}
	w.machine, _ = cfi.MachineOf(elf.EM_386)
	s.User, s.FPs = s.User[:0], s.FPs[:0]
	s.Outcome, s.Finish = w.walkFrames(frame), kernel.ByCFI
}

// compatWalker walks one stack of a 32-bit task.
type compatWalker struct {
	tracker *process.Tracker
	view    *process.View
	sample  *kernel.Sample
	machine cfi.Machine
	memory  kernel.Stack
	viaFP   bool // the current frame was found by a frame record
}

// walkFrames walks from the leaf to the root.
func (w *compatWalker) walkFrames(f cfi.Frame) unwind.Outcome {
	for range maxFrames {
		if o := w.findRules(f.Lookup()); o != unwind.Unset {
			w.addFrame(&f)
			return o
		}
		call, bias, ok := w.callFrame(&f)
		if ok && call.Signal {
			f.Exact = true // a signal trampoline is not called
		}
		w.addFrame(&f)
		caller, o := w.byFramePointer, unwind.Unset
		if ok {
			caller = func(f *cfi.Frame) (cfi.Frame, unwind.Outcome) { return w.byCallFrame(f, &call, bias) }
		}
		if f, o = caller(&f); o != unwind.Unset {
			return o
		}
	}
	return unwind.DepthLimit
}

// callFrame returns the call frame information of a frame, false if there is none. The information of a trampoline ends
// at the pc that it has during its system call, which is its last instruction.
func (w *compatWalker) callFrame(f *cfi.Frame) (call unwind.CallFrame, bias uint64, ok bool) {
	if call, bias, ok = w.view.CallFrame(f.Lookup()); ok || !f.Exact {
		return call, bias, ok
	}
	call, bias, ok = w.view.CallFrame(f.PC - 1)
	return call, bias, ok && call.Signal
}

// findRules looks an address up, and reads the mappings again if it is in none.
func (w *compatWalker) findRules(addr uint64) unwind.Outcome {
	if w.view.Mapped(addr) != unwind.Unset {
		w.tracker.Refresh(w.sample.PID, addr)
		*w.view = w.tracker.AtExec(w.sample.PID, w.sample.Time, w.sample.Exec)
	}
	return w.view.Mapped(addr)
}

// addFrame adds a frame to the sample.
func (w *compatWalker) addFrame(f *cfi.Frame) {
	fp, _ := f.Regs.Get(ebp)
	addFrame(w.view, w.sample, &unwind.Regs{PC: f.PC, FP: fp, Exact: f.Exact, ViaFP: w.viaFP})
}

// byCallFrame returns the caller's frame by call frame information.
func (w *compatWalker) byCallFrame(f *cfi.Frame, call *unwind.CallFrame, bias uint64) (cfi.Frame, unwind.Outcome) {
	rules := cfi.Rules{Row: call.Row, ReturnRegister: call.ReturnRegister, Signal: call.Signal}
	caller, end, _ := w.machine.Step(f, &rules, bias, w.memory)
	sp, _ := f.Regs.Get(esp)
	if end == cfi.ZeroReturn {
		return caller, w.atZero(sp)
	}
	if end != cfi.Unset {
		return caller, outcomeOf(end)
	}
	w.viaFP = false
	if next, _ := caller.Regs.Get(esp); !call.Signal && next <= sp {
		return caller, unwind.NoProgress
	}
	return caller, unwind.Unset
}

// byFramePointer returns the caller's frame by the frame record at ebp: the caller's ebp, then the return address. The
// code at which the kernel starts a program has no caller.
func (w *compatWalker) byFramePointer(f *cfi.Frame) (cfi.Frame, unwind.Outcome) {
	if w.view.Outermost(f.Lookup()) {
		return cfi.Frame{}, unwind.Complete
	}
	sp, _ := f.Regs.Get(esp)
	fp, _ := f.Regs.Get(ebp)
	var record [8]byte
	if fp < sp || fp%4 != 0 || !w.memory.Read(fp, record[:]) {
		return cfi.Frame{}, unwind.NoRow
	}
	caller := cfi.Frame{PC: uint64(binary.LittleEndian.Uint32(record[4:]))}
	if caller.PC == 0 {
		return caller, w.atZero(fp)
	}
	if w.view.Mapped(caller.PC-1) != unwind.Unset {
		return caller, unwind.NoRow // it is no frame record
	}
	caller.Regs.Set(ebp, uint64(binary.LittleEndian.Uint32(record[:])))
	caller.Regs.Set(esp, fp+uint64(len(record)))
	w.viaFP = true
	return caller, unwind.Unset
}

// atZero returns the outcome of a return address of zero: the end of the stack, if the stack can end there.
func (w *compatWalker) atZero(addr uint64) unwind.Outcome {
	if w.sample.Stack.EndsAt(addr) {
		return unwind.CompleteFP
	}
	return unwind.NoRow
}
