package reference

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Sample is perf's copy of the user state of a task at one instant.
type Sample struct {
	Time      uint64 // CLOCK_MONOTONIC, ns
	PID       uint32
	PC, SP    uint64
	Registers map[uint64]uint64 // by DWARF number
	Stack     []byte            // memory from SP on
	StackFull bool              // Stack has perf's maximum size: the stack may continue
}

// Frame is one activation of a function.
type Frame struct {
	PC    uint64 // address in the process
	File  *File  // nil if it is in no file
	Vaddr uint64 // ELF virtual address of PC in File
}

// Stack is the result of a walk, leaf first, and the reason for its end.
type Stack struct {
	Frames []Frame
	End    End
	Err    error // details of the end; may be nil
}

// Unwinder walks samples of this host. It is for one goroutine.
type Unwinder struct {
	abi       *abi
	events    *events
	processes *processes
	upTo      uint64 // events up to this time were read
	swept     uint64
}

// Open starts to watch processes. From then on their mappings are known for every time.
func Open() (*Unwinder, error) {
	abi, err := abiOf(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	u := &Unwinder{abi: abi, processes: newProcesses()}
	if u.events, err = openEvents(); err != nil {
		return nil, err
	}
	if err := u.processes.scanHost(0); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// Close releases all resources. Files of frames can no longer be read.
func (u *Unwinder) Close() {
	u.events.close()
	for _, f := range u.processes.files {
		f.close()
	}
}

// Lost returns the number of times that the kernel had no room for events.
func (u *Unwinder) Lost() uint64 { return u.processes.lost }

// maxFrames is the maximum number of frames of a walk, more than in any walk of the profiler.
const maxFrames = 2048

// Watch reads new events. Call it often, so that files can be opened before their processes end.
func (u *Unwinder) Watch() {
	const sweepEvery = 10e9
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // cannot happen: the clock exists
	}
	u.processes.apply(u.events.readRings())
	u.upTo = uint64(now.Nano())
	if u.swept+sweepEvery < u.upTo {
		u.swept = u.upTo
		u.processes.sweep(u.upTo)
	}
}

// Walk unwinds a sample.
func (u *Unwinder) Walk(s *Sample) Stack {
	if s.Time > u.upTo {
		u.Watch()
	}
	p := u.processes.byPID[s.PID]
	if p == nil {
		return Stack{Frames: []Frame{{PC: s.PC}}, End: ProcessGone}
	}
	f := &frame{abi: u.abi, memory: &stackCopy{s.SP, s.Stack, s.StackFull}, pc: s.PC, exact: true, registers: s.Registers}
	var out Stack
	for range maxFrames {
		file, vaddr, end, err := u.locate(p, s, f.lookup())
		out.Frames = append(out.Frames, Frame{PC: f.pc, File: file, Vaddr: vaddr + (f.pc - f.lookup())})
		if end == "" {
			f, end, err = stepFrame(f, file, vaddr)
		}
		if end != "" {
			out.End, out.Err = end, err
			return out
		}
	}
	out.End = DepthLimit
	return out
}

// stepFrame returns the caller of f by the file's rules for vaddr, the address that f looks up.
func stepFrame(f *frame, file *File, vaddr uint64) (*frame, End, error) {
	answer := file.rules(vaddr)
	if answer.end != "" {
		return nil, answer.end, answer.err
	}
	caller, end, err := f.caller(answer.row, answer.cie, f.lookup()-vaddr)
	if err != nil {
		err = fmt.Errorf("%s at %#x: %w", file.Path, vaddr, err)
	}
	return caller, end, err
}

// locate returns the file with an address of a process, and the ELF virtual address in it.
func (u *Unwinder) locate(p *process, s *Sample, addr uint64) (*File, uint64, End, error) {
	const pause = 1e9
	c := p.findMapping(addr, s.Time)
	if c == nil && p.ended == 0 && p.scanned+pause < s.Time {
		// Some changes have no event, such as mremap(2).
		p.scanned = s.Time
		u.processes.scanOne(s.PID, s.Time)
		c = p.findMapping(addr, s.Time)
	}
	switch {
	case c == nil:
		return nil, 0, NoMapping, nil
	case c.err != nil:
		return nil, 0, ProcessGone, c.err
	case c.file == nil:
		return nil, 0, NoFile, nil
	}
	if err := c.file.loadOnce(); err != nil {
		return nil, 0, BadCFI, err
	}
	if c.file == u.processes.vdso {
		return c.file, addr - c.mapping.start, "", nil
	}
	vaddr, ok := c.file.vaddr(addr - c.mapping.start + c.mapping.offset)
	if !ok {
		return nil, 0, NoMapping, fmt.Errorf("%s: no executable segment is at offset %#x", c.mapping.path,
			addr-c.mapping.start+c.mapping.offset)
	}
	return c.file, vaddr, "", nil
}
