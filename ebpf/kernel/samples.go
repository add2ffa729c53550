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

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/flame/kind"
)

// Sample is one sample as the kernel sent it. Slices are valid until the next
// read.
type Sample struct {
	Kind       kind.Kind
	Value      uint64 // weight, in the unit of the first value of its kind; 0 means the period of its kind
	Time       uint64 // CLOCK_MONOTONIC, ns
	PID, TID   uint32
	CPU        uint32
	Outcome    unwind.Outcome
	InUser     bool   // the CPU was in user mode
	Generation uint32 // of the mappings that the walk saw, 0 if none
	Exec       uint32 // the kernel's number of the program that ran, see unwind.Process; 0 if not known
	Comm       string // of the thread

	Kernel []uint64 // addresses, leaf first
	User   []Frame  // leaf first

	// Regs are the registers where the walk stopped, for user space to continue from. With FromLeaf they are the
	// leaf's, because the walk met a rule that needs more registers than it keeps. Stack is a copy of the user stack
	// around and above Regs.SP; it exists only when the walk missed a table or met such a rule.
	Regs     unwind.Regs
	FromLeaf bool
	// Precaution says, with FromLeaf, that the walk is complete unless it used old mappings.
	Precaution bool
	Stack      Stack
	Finish     Finish   // set by the code that finishes the stack
	Walked     int      // number of frames of User that the kernel walked; set with Finish
	FPs        []uint64 // frame pointers of the other frames, each at the index of its frame; set with Finish

	Chain Chain // of the thread's interpreter

	buffer []byte // memory for a copied stack
}

// Finish says which code walked the last part of a user stack.
type Finish uint8

// The finishes.
const (
	InKernel   Finish = iota // the kernel walked it as far as it could
	ByRows                   // user space, by rows that the kernel lacked
	ByAnalysis               // user space, in part by analysis of code that a program generated
	ByCFI                    // user space from the leaf, by complete call frame information
)

// CopyFrom makes s a copy of from that stays valid. It reuses the memory that s has for frames and for a copy of a
// stack.
func (s *Sample) CopyFrom(from *Sample) {
	frames, user, fps, more, chain := s.Kernel[:0], s.User[:0], s.FPs[:0], s.Stack.more[:0], s.Chain
	buffer := slices.Grow(s.buffer[:0], from.Stack.Len())
	*s = *from
	s.Kernel, s.User = append(frames, from.Kernel...), append(user, from.User...)
	s.FPs, s.buffer, s.Stack.more, s.Chain = fps, buffer, more, chain
	s.Chain.CopyFrom(&from.Chain)
	s.Stack.stackPart = s.keepPart(from.Stack.stackPart)
	for _, part := range from.Stack.more {
		s.Stack.more = append(s.Stack.more, s.keepPart(part))
	}
}

// keepPart copies a part of a stack to the buffer.
func (s *Sample) keepPart(part stackPart) stackPart {
	at := len(s.buffer)
	s.buffer = append(s.buffer, part.bytes...)
	part.bytes = s.buffer[at:]
	return part
}

// Buffer returns the size of the memory that s keeps for a copy of a stack, in bytes.
func (s *Sample) Buffer() int { return cap(s.buffer) }

// DropStack frees the copy of the stack and its memory.
func (s *Sample) DropStack() { s.Stack, s.buffer = Stack{}, nil }

// Frame is a user frame.
type Frame struct {
	Vaddr uint64        // an ELF virtual address of the executable; with Exe 0 an address in the process
	Exe   unwind.ExeID  // 0 if the code is in no file
	Code  unwind.CodeID // for code that a language runtime generated; set when the stack is completed
	Flags FrameFlags
}

// Lookup returns the address that determines the function of the frame: an address in the call, if Vaddr is a return
// address.
func (f Frame) Lookup() uint64 {
	if f.Flags&ReturnAddress != 0 && f.Vaddr > 0 {
		return f.Vaddr - 1
	}
	return f.Vaddr
}

// OutsideFile reports whether the frame is in code that is in no file.
func (f Frame) OutsideFile() bool { return f.Exe == 0 || f.Code != 0 }

// EndElsewhere ends the user stack after a number of frames: it continues elsewhere, and is not read there.
func (s *Sample) EndElsewhere(frames int) { s.User, s.Outcome = s.User[:frames], unwind.Switched }

// FrameFlags describe a frame's address and how it was found.
type FrameFlags uint8

// Frame flags, see enum frame_flags in bpf/abi/samples.h.
const (
	ReturnAddress FrameFlags = FrameFlags(profilerFrameFlagsFRAME_RETURN_ADDRESS)
	FramePointer  FrameFlags = FrameFlags(profilerFrameFlagsFRAME_POINTER)
	// InHeap is a frame that the runtime keeps in its heap.
	InHeap FrameFlags = FrameFlags(profilerFrameFlagsFRAME_FROZEN)
	// Interpreted is a function that an interpreter runs: Exe stands for the interpreter's functions, Code is the
	// number of the function, and Vaddr is a position in it.
	Interpreted FrameFlags = 1 << 6
	// UnnamedJIT is code in no file, at address Vaddr of the process, of an interpreter whose functions cannot be
	// named. Exe stands for these functions, and Code is the number of a text.
	UnnamedJIT FrameFlags = 1 << 5
)

// sampleReader reads the CPUs' rings after a while, or when BPF wakes it.
type sampleReader struct {
	wakeups *wakeups
	rings   *sampleRings
	sample  Sample
	comms   map[string]string

	part      bool               // sample is a part: it holds more of the stack of the CPU's previous sample
	continued bool               // another part follows
	waiting   map[uint32]*Sample // by CPU: samples whose parts are not all read
	spare     *Sample            // reused for the next waiting sample
}

func newSampleReader(wakeups *wakeups, rings *sampleRings) *sampleReader {
	return &sampleReader{wakeups: wakeups, rings: rings, comms: map[string]string{}, waiting: map[uint32]*Sample{}}
}

// readUntil hands every sample that is available, or arrives before the deadline or a flush, to f. Samples of one CPU
// are in order of time.
func (r *sampleReader) readUntil(deadline time.Time, f func(*Sample)) (flushed bool, err error) {
	defer func() { // parts that have not arrived by now are lost
		for cpu := range r.waiting {
			r.complete(cpu, f)
		}
	}()
	for {
		flushed, err := r.wakeups.waitUntil(deadline)
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

// drain hands the samples in the rings to f.
func (r *sampleReader) drain(f func(*Sample)) error {
	for cpu, ring := range r.rings.byCPU {
		err := drain(ring, func(b []byte) error {
			if err := r.decode(b); err != nil {
				return err
			}
			r.joinParts(f)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read samples: CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// joinParts hands the decoded record to f, unless it is a part of an earlier sample, or parts of it follow.
func (r *sampleReader) joinParts(f func(*Sample)) {
	s := &r.sample
	waiting := r.waiting[s.CPU]
	switch {
	case r.part && waiting != nil && waiting.Time == s.Time:
		waiting.Stack.more = append(waiting.Stack.more, waiting.keepPart(s.Stack.stackPart))
		if !r.continued {
			r.complete(s.CPU, f)
		}
		return
	case waiting != nil:
		r.complete(s.CPU, f)
	}
	switch {
	case r.part: // a part of a lost sample
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

// decode reads struct sample of bpf/abi/samples.h.
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
	if out.Kind != kind.CPU { // user space knows the CPU period better: it may change while samples are under way
		out.Value = uint64(u32(unsafe.Offsetof(s.Period)))
	}
	out.Time = u64(unsafe.Offsetof(s.Time))
	out.PID, out.TID = u32(unsafe.Offsetof(s.Pid)), u32(unsafe.Offsetof(s.Tid))
	out.CPU = u32(unsafe.Offsetof(s.Cpu))
	out.Outcome = unwind.Outcome(b[unsafe.Offsetof(s.Outcome)])
	out.InUser = flags&profilerSampleFlagsSAMPLE_IN_USER != 0
	out.Generation, out.Exec = u32(unsafe.Offsetof(s.Generation)), u32(unsafe.Offsetof(s.Exec))
	out.Comm = r.commOf(b[unsafe.Offsetof(s.Comm):][:len(s.Comm)])
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
	out.Chain.End = language.ChainEnd(b[unsafe.Offsetof(s.ChainEnd)])
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

// readFrames reads the kernel frames, then the user frames, from body, which is long enough, and returns the rest of
// body.
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

// commOf returns the name in a NUL-terminated buffer. It interns names, up to a limit, since they repeat.
func (r *sampleReader) commOf(b []byte) string {
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
