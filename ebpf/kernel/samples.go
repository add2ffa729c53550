package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/headwater/headwater/ebpf/kind"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// Sample is one sample as the kernel sent it. Slices are valid until the next
// read.
type Sample struct {
	Kind       kind.Kind
	Value      uint64 // what it stands for, in the unit of the first value of its kind; 0: the period of its kind
	Time       uint64 // CLOCK_MONOTONIC, ns
	PID, TID   uint32
	CPU        uint32
	Outcome    unwind.Outcome
	InUser     bool   // the CPU was in user mode
	Generation uint32 // of the mappings that the walk saw, 0: none
	Exec       uint32 // the kernel's number of the program that ran, see unwind.Process; 0: not known
	Comm       string // of the thread

	Kernel []uint64 // addresses, leaf first
	User   []Frame  // leaf first

	// Where the walk stopped, to go on from there; with FromLeaf where it began, for
	// it met a rule that needs more registers than it keeps. Stack is a copy of the
	// user stack around and above Regs.SP; it is there only when the walk missed
	// a table or met such a rule.
	Regs     unwind.Regs
	FromLeaf bool
	// Precaution says, with FromLeaf, that the walk needs nothing more if it did not go by old mappings.
	Precaution bool
	Stack      Stack
	Finish     Finish   // set by who finishes it
	Walked     int      // frames of User that are as the kernel walked them; set by who finishes it
	FPs        []uint64 // frame pointers of the others, each at the number of its frame; set by who finishes it

	Chain Chain // of the thread's interpreter

	buffer []byte // of a copy: for that of a stack
}

// Finish says who has walked the last part of a user stack.
type Finish uint8

// The finishes.
const (
	InKernel   Finish = iota // nobody: the kernel walked it as far as it goes
	ByRows                   // user space, by the rows that the kernel lacked
	ByAnalysis               // user space, in part by what code does that a program has made
	ByCFI                    // user space from the leaf, by complete call frame information
)

// CopyFrom makes s a copy of from that stays valid. It reuses the memory that s has
// for frames and for a copy of a stack.
func (s *Sample) CopyFrom(from *Sample) {
	frames, user, fps, more, chain := s.Kernel[:0], s.User[:0], s.FPs[:0], s.Stack.more[:0], s.Chain
	buffer := slices.Grow(s.buffer[:0], from.Stack.Len())
	*s = *from
	s.Kernel, s.User = append(frames, from.Kernel...), append(user, from.User...)
	s.FPs, s.buffer, s.Stack.more, s.Chain = fps, buffer, more, chain
	s.Chain.CopyFrom(&from.Chain)
	s.Stack.stackPart = s.keep(from.Stack.stackPart)
	for _, part := range from.Stack.more {
		s.Stack.more = append(s.Stack.more, s.keep(part))
	}
}

// keep copies a part of a stack to the buffer.
func (s *Sample) keep(part stackPart) stackPart {
	at := len(s.buffer)
	s.buffer = append(s.buffer, part.bytes...)
	part.bytes = s.buffer[at:]
	return part
}

// Buffer returns the bytes of memory that s keeps for a copy of a stack.
func (s *Sample) Buffer() int { return cap(s.buffer) }

// DropStack gives up the copy of the stack, and the memory for one.
func (s *Sample) DropStack() { s.Stack, s.buffer = Stack{}, nil }

// Frame is a user frame.
type Frame struct {
	Vaddr uint64        // an ELF virtual address of the executable; with Exe 0 an address in the process
	Exe   unwind.ExeID  // 0: it is in no file
	Code  unwind.CodeID // in code that a language runtime has made; set by who completes the stack
	Flags FrameFlags
}

// Lookup returns the address that says in which function the frame is: of the call, if
// Vaddr is where it returns to.
func (f Frame) Lookup() uint64 {
	if f.Flags&ReturnAddress != 0 && f.Vaddr > 0 {
		return f.Vaddr - 1
	}
	return f.Vaddr
}

// FrameFlags say what a frame's address is and how it was found.
type FrameFlags uint8

// Frame flags, see enum frame_flags in bpf/abi.h.
const (
	ReturnAddress FrameFlags = FrameFlags(profilerFrameFlagsFRAME_RETURN_ADDRESS)
	FramePointer  FrameFlags = FrameFlags(profilerFrameFlagsFRAME_POINTER)
	// Interpreted is a function that an interpreter runs: Exe stands for the functions of that,
	// Code is its number, and Vaddr says where in the function.
	Interpreted FrameFlags = 1 << 6
	// Made is code in no file, at address Vaddr of the process: of an interpreter whose functions
	// cannot be named. Exe stands for them, and Code is the number of a text.
	Made FrameFlags = 1 << 5
)

// sampleReader reads the CPUs' rings when a while has passed, or when BPF wakes it.
type sampleReader struct {
	wakeups *wakeups
	rings   *sampleRings
	sample  Sample
	comms   map[string]string

	part      bool               // sample is not one itself: it has more of the stack of the one before
	continued bool               // a part follows
	waiting   map[uint32]*Sample // by CPU: samples whose parts are not all there
	spare     *Sample            // for the next one that waits
}

func newSampleReader(wakeups *wakeups, rings *sampleRings) *sampleReader {
	return &sampleReader{wakeups: wakeups, rings: rings, comms: map[string]string{}, waiting: map[uint32]*Sample{}}
}

// read hands every sample that is there or arrives before the deadline, or
// before a flush, to f. Samples of one CPU are in order of time.
func (r *sampleReader) read(deadline time.Time, f func(*Sample)) (flushed bool, err error) {
	defer func() { // what has not come by now was lost
		for cpu := range r.waiting {
			r.complete(cpu, f)
		}
	}()
	for {
		flushed, err := r.wakeups.wait(deadline)
		ended := errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !ended {
			return false, fmt.Errorf("read samples: %w", err)
		}
		if err := r.drain(f); err != nil {
			return false, err
		}
		if ended {
			return flushed, nil
		}
	}
}

// drain hands over what the rings hold.
func (r *sampleReader) drain(f func(*Sample)) error {
	for cpu, ring := range r.rings.byCPU {
		err := drain(ring, func(b []byte) error {
			if err := r.decode(b); err != nil {
				return err
			}
			r.join(f)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read samples: CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// join hands the record that was decoded to f, unless it is a part of another, or
// parts of it are to come.
func (r *sampleReader) join(f func(*Sample)) {
	s := &r.sample
	waiting := r.waiting[s.CPU]
	switch {
	case r.part && waiting != nil && waiting.Time == s.Time:
		waiting.Stack.more = append(waiting.Stack.more, waiting.keep(s.Stack.stackPart))
		if !r.continued {
			r.complete(s.CPU, f)
		}
		return
	case waiting != nil:
		r.complete(s.CPU, f)
	}
	switch {
	case r.part: // of a sample that was lost
	case r.continued:
		if waiting, r.spare = r.spare, nil; waiting == nil {
			waiting = &Sample{}
		}
		waiting.CopyFrom(s)
		r.waiting[s.CPU] = waiting
	default:
		f(s)
	}
}

// complete hands a sample that waited for its parts to f.
func (r *sampleReader) complete(cpu uint32, f func(*Sample)) {
	s := r.waiting[cpu]
	delete(r.waiting, cpu)
	f(s)
	r.spare = s
}

// decode reads struct sample of bpf/abi.h.
func (r *sampleReader) decode(b []byte) error {
	var s profilerSample
	if len(b) < sampleHead {
		return fmt.Errorf("record of %d bytes, want at least %d", len(b), sampleHead)
	}
	le := binary.LittleEndian
	u32 := func(at uintptr) uint32 { return le.Uint32(b[at:]) }
	u64 := func(at uintptr) uint64 { return le.Uint64(b[at:]) }

	flags := profilerSampleFlags(b[unsafe.Offsetof(s.Flags)])
	kernelFrames := int(le.Uint16(b[unsafe.Offsetof(s.KernelFrames):]))
	userFrames := int(le.Uint16(b[unsafe.Offsetof(s.UserFrames):]))
	stackBytes := int(u32(unsafe.Offsetof(s.StackBytes)))
	body := b[sampleHead:]
	registers := 0 // bytes
	if flags&(profilerSampleFlagsSAMPLE_REGISTERS|profilerSampleFlagsSAMPLE_RBX) != 0 {
		registers = 8 * len(unwind.Regs{}.General)
	}
	runtimeBytes := 8 * int(le.Uint16(b[unsafe.Offsetof(s.RuntimeWords):]))
	if 8*kernelFrames+16*userFrames+runtimeBytes+registers+stackBytes > len(body) {
		return fmt.Errorf("record of %d bytes is too short for %d + %d frames and %d + %d bytes of stack", len(b),
			kernelFrames, userFrames, runtimeBytes, stackBytes)
	}

	out := &r.sample
	out.Kind, out.Value = kind.Kind(u32(unsafe.Offsetof(s.Kind))), 0
	if out.Kind != kind.CPU { // whose period is known better: it may change while samples are under way
		out.Value = uint64(u32(unsafe.Offsetof(s.Period)))
	}
	out.Time = u64(unsafe.Offsetof(s.Time))
	out.PID, out.TID = u32(unsafe.Offsetof(s.Pid)), u32(unsafe.Offsetof(s.Tid))
	out.CPU = u32(unsafe.Offsetof(s.Cpu))
	out.Outcome = unwind.Outcome(b[unsafe.Offsetof(s.Outcome)])
	out.InUser = flags&profilerSampleFlagsSAMPLE_IN_USER != 0
	out.Generation, out.Exec = u32(unsafe.Offsetof(s.Generation)), u32(unsafe.Offsetof(s.Exec))
	out.Comm = r.comm(b[unsafe.Offsetof(s.Comm):][:len(s.Comm)])
	out.Regs = unwind.Regs{
		PC:    u64(unsafe.Offsetof(s.Pc)),
		SP:    u64(unsafe.Offsetof(s.Sp)),
		FP:    u64(unsafe.Offsetof(s.Fp)),
		LR:    u64(unsafe.Offsetof(s.Lr)),
		Exact: flags&profilerSampleFlagsSAMPLE_EXACT_PC != 0,
	}
	out.Regs.LRKnown = out.Regs.LR != 0
	out.Regs.Full = flags&profilerSampleFlagsSAMPLE_REGISTERS != 0
	out.Regs.RBX = flags&profilerSampleFlagsSAMPLE_RBX != 0
	out.Precaution = flags&profilerSampleFlagsSAMPLE_PRECAUTION != 0
	out.FromLeaf, out.Finish = flags&profilerSampleFlagsSAMPLE_FROM_LEAF != 0, InKernel
	body = out.readFrames(body, kernelFrames, userFrames)
	out.Chain.Interpreter = u32(unsafe.Offsetof(s.Interpreter))
	out.Chain.End = runtime.ChainEnd(b[unsafe.Offsetof(s.ChainEnd)])
	if err := out.Chain.decode(body[:runtimeBytes], int(b[unsafe.Offsetof(s.Codes)])); err != nil {
		return err
	}
	body = body[runtimeBytes:]
	for i := range registers / 8 {
		out.Regs.General[i] = le.Uint64(body[8*i:])
	}
	r.part, r.continued = flags&profilerSampleFlagsSAMPLE_PART != 0, flags&profilerSampleFlagsSAMPLE_CONTINUED != 0
	out.Stack = Stack{stackPart: stackPart{
		bytes:  body[registers:][:stackBytes],
		base:   (out.Regs.SP - uint64(profilerLimitsRED_ZONE)) &^ (stackPage - 1),
		pages:  u32(unsafe.Offsetof(s.StackPages)),
		packed: r.part,
	}, lastFrames: u64(unsafe.Offsetof(s.LastFrames))}
	return out.Stack.check()
}

// readFrames reads a number of kernel frames, then one of user frames, from body, which has
// them, and returns what follows.
func (s *Sample) readFrames(body []byte, kernel, user int) []byte {
	le := binary.LittleEndian
	s.Kernel = s.Kernel[:0]
	for i := range kernel {
		s.Kernel = append(s.Kernel, le.Uint64(body[8*i:]))
	}
	body = body[8*kernel:]
	s.User = s.User[:0]
	for i := range user {
		f := body[16*i:]
		s.User = append(s.User, Frame{
			Vaddr: le.Uint64(f), Exe: unwind.ExeID(le.Uint32(f[8:])), Flags: FrameFlags(le.Uint32(f[12:])),
		})
	}
	return body[16*user:]
}

// comm returns the name in a NUL-terminated buffer. Names repeat, so they are
// interned, within reason.
func (r *sampleReader) comm(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	if s, ok := r.comms[string(b)]; ok {
		return s
	}
	if len(r.comms) >= 4096 {
		clear(r.comms)
	}
	s := string(b)
	r.comms[s] = s
	return s
}
