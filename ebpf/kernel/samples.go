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

	"github.com/headwater/headwater/ebpf/unwind"
)

// Sample is one sample as the kernel sent it. Slices are valid until the next
// read.
type Sample struct {
	Time       uint64 // CLOCK_MONOTONIC, ns
	PID, TID   uint32
	CPU        uint32
	Outcome    unwind.Outcome
	InUser     bool   // the CPU was in user mode
	Generation uint32 // of the mappings that the walk saw, 0: none
	Comm       string // of the thread

	Kernel []uint64 // addresses, leaf first
	User   []Frame  // leaf first

	// Where the walk stopped, to go on from there; with FromLeaf where it began, for
	// it met a rule that needs more registers than it keeps. Stack is a copy of the
	// user stack around and above Regs.SP; it is there only when the walk missed
	// a table or met such a rule.
	Regs     unwind.Regs
	FromLeaf bool
	Stack    Stack
	Finish   Finish // set by who finishes it

	buffer []byte // of a copy: for that of a stack
}

// Finish says who has walked the last part of a user stack.
type Finish uint8

// The finishes.
const (
	InKernel Finish = iota // nobody: the kernel walked it as far as it goes
	ByRows                 // user space, by the rows that the kernel lacked
	ByCode                 // user space, in part by what code does that a program has made
	ByCFI                  // user space from the leaf, by complete call frame information
)

// CopyFrom makes s a copy of from that stays valid. It reuses the memory that s has
// for frames and for a copy of a stack.
func (s *Sample) CopyFrom(from *Sample) {
	frames, user, buffer, more := s.Kernel[:0], s.User[:0], slices.Grow(s.buffer[:0], from.Stack.Len()), s.Stack.more[:0]
	*s = *from
	s.Kernel, s.User = append(frames, from.Kernel...), append(user, from.User...)
	s.buffer, s.Stack.more = buffer, more
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

// Frame is a user frame. With Exe 0, Address is one of the process, else an ELF
// virtual address of that executable.
type Frame struct {
	Address uint64
	Exe     uint32
	Flags   FrameFlags
}

// FrameFlags say what a frame's address is and how it was found.
type FrameFlags uint32

// Frame flags, see enum frame_flags in bpf/abi.h.
const (
	ReturnAddress FrameFlags = FrameFlags(profilerFrameFlagsFRAME_RETURN_ADDRESS)
	FramePointer  FrameFlags = FrameFlags(profilerFrameFlagsFRAME_POINTER)
)

// sampleReader reads the CPUs' logs when a while has passed, or when it is called.
type sampleReader struct {
	calls  *calls
	logs   *logs
	sample Sample
	comms  map[string]string

	part      bool               // sample is none: it has more of the stack of the one before
	continued bool               // a part follows
	waiting   map[uint32]*Sample // by CPU: samples of which more is to come
	spare     *Sample            // for the next one that waits
}

func newSampleReader(calls *calls, logs *logs) *sampleReader {
	return &sampleReader{calls: calls, logs: logs, comms: map[string]string{}, waiting: map[uint32]*Sample{}}
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
		flushed, err := r.calls.wait(deadline)
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

// drain hands over what the logs hold.
func (r *sampleReader) drain(f func(*Sample)) error {
	for cpu, log := range r.logs.byCPU {
		err := drain(log, func(b []byte) error {
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
	if 8*kernelFrames+16*userFrames+registers+stackBytes > len(body) {
		return fmt.Errorf("record of %d bytes is too short for %d + %d frames and %d bytes of stack", len(b), kernelFrames, userFrames, stackBytes)
	}

	out := &r.sample
	out.Time = u64(unsafe.Offsetof(s.Time))
	out.PID, out.TID = u32(unsafe.Offsetof(s.Pid)), u32(unsafe.Offsetof(s.Tid))
	out.CPU = u32(unsafe.Offsetof(s.Cpu))
	out.Outcome = unwind.Outcome(b[unsafe.Offsetof(s.Outcome)])
	out.InUser = flags&profilerSampleFlagsSAMPLE_IN_USER != 0
	out.Generation = u32(unsafe.Offsetof(s.Generation))
	out.Comm = r.comm(b[unsafe.Offsetof(s.Comm):][:len(s.Comm)])
	out.Regs = unwind.Regs{
		PC:    u64(unsafe.Offsetof(s.Pc)),
		SP:    u64(unsafe.Offsetof(s.Sp)),
		FP:    u64(unsafe.Offsetof(s.Fp)),
		LR:    u64(unsafe.Offsetof(s.Lr)),
		Exact: flags&profilerSampleFlagsSAMPLE_EXACT_PC != 0,
	}
	out.Regs.LRKnown = out.Regs.LR != 0
	out.Regs.Full, out.Regs.RBX = flags&profilerSampleFlagsSAMPLE_REGISTERS != 0, flags&profilerSampleFlagsSAMPLE_RBX != 0
	out.FromLeaf, out.Finish = flags&profilerSampleFlagsSAMPLE_FROM_LEAF != 0, InKernel
	out.Kernel = out.Kernel[:0]
	for i := range kernelFrames {
		out.Kernel = append(out.Kernel, le.Uint64(body[8*i:]))
	}
	body = body[8*kernelFrames:]
	out.User = out.User[:0]
	for i := range userFrames {
		f := body[16*i:]
		out.User = append(out.User, Frame{Address: le.Uint64(f), Exe: le.Uint32(f[8:]), Flags: FrameFlags(le.Uint32(f[12:]))})
	}
	body = body[16*userFrames:]
	for i := range registers / 8 {
		out.Regs.General[i] = le.Uint64(body[8*i:])
	}
	r.part, r.continued = flags&profilerSampleFlagsSAMPLE_PART != 0, flags&profilerSampleFlagsSAMPLE_CONTINUED != 0
	out.Stack = Stack{stackPart: stackPart{
		bytes:  body[registers:][:stackBytes],
		base:   (out.Regs.SP - uint64(profilerLimitsRED_ZONE)) &^ (stackPage - 1),
		pages:  u32(unsafe.Offsetof(s.StackPages)),
		packed: r.part,
	}}
	return out.Stack.check()
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
