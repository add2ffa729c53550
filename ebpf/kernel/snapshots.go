package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// PerfSnapshot is the user part of a task at the instant of a sample, as perf itself recorded it: the state from which
// the kernel's walk started, for checking the walk. Slices are valid until the next read.
type PerfSnapshot struct {
	Time     uint64 // CLOCK_MONOTONIC, ns: a few microseconds before the time of the sample
	CPU      uint32
	PID, TID uint32

	// Regs are the general registers by DWARF number, including the stack pointer. InUser is false when there are none,
	// as for a kernel thread or a 32-bit task.
	InUser bool
	PC     uint64
	Regs   [generalRegs]uint64
	Stack  []byte // from the stack pointer upwards; ends where memory could not be read
	Full   bool   // the stack may be longer: perf makes no longer copies
}

const (
	// snapshotStack is the requested size of a stack: the largest multiple of 8 that fits the kernel's u16. The kernel
	// cuts it to the size that fits a record.
	snapshotStack = 65528
	// snapshotPages is the size of a CPU's buffer of snapshots, in pages of memory: room for half a second or more at a
	// usual rate.
	snapshotPages = 1024
)

// snapshots reads the records of the sampling events.
type snapshots struct {
	rings map[int]*perfRing // by CPU
	lost  uint64
	last  PerfSnapshot
}

// KeepSnapshots makes every sample of a task come with a PerfSnapshot, at the cost of copying some 64 KiB for each.
// Call it before SetStacks and Start.
func (p *Profiler) KeepSnapshots() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshots = &snapshots{rings: map[int]*perfRing{}}
}

// ReadSnapshots hands every available snapshot to f, CPU by CPU and in order of time on each, and returns how many were
// lost so far because a buffer was full.
func (p *Profiler) ReadSnapshots(f func(*PerfSnapshot)) (lost uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshots == nil {
		return 0, errors.New("read snapshots of stacks: none are kept")
	}
	for cpu, ring := range p.snapshots.rings {
		err := ring.readRecords(func(kind uint32, _ uint16, body []byte) {
			if kind == unix.PERF_RECORD_LOST && len(body) >= 16 {
				p.snapshots.lost += binary.NativeEndian.Uint64(body[8:])
			}
			if kind == unix.PERF_RECORD_SAMPLE && p.snapshots.last.parse(body) {
				p.snapshots.last.CPU = uint32(cpu)
				f(&p.snapshots.last)
			}
		})
		if err != nil {
			return p.snapshots.lost, fmt.Errorf("read snapshots of stacks: CPU %d: %w", cpu, err)
		}
	}
	return p.snapshots.lost, nil
}

// openClock opens the sampling event of a CPU, with a buffer of its own when
// snapshots are kept.
func (p *Profiler) openClock(cpu int) (*perfEvent, error) {
	attr := clockAttr(p.period)
	if p.snapshots == nil {
		return openPerfEvent(attr, cpu)
	}
	attr.Sample_type = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
		unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER
	attr.Sample_regs_user = userRegsMask
	attr.Sample_stack_user = snapshotStack
	attr.Bits |= unix.PerfBitUseClockID
	attr.Clockid = unix.CLOCK_MONOTONIC
	event, err := openPerfEvent(attr, cpu)
	if err != nil {
		return nil, err
	}
	ring, err := newPerfRing(event, snapshotPages)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("snapshots of stacks: CPU %d: %w", cpu, err), event.close())
	}
	p.snapshots.rings[cpu] = ring
	return event, nil
}

// closeClock closes the sampling event of a CPU and its buffer.
func (p *Profiler) closeClock(clock *perfEvent) error {
	if p.snapshots != nil {
		if ring := p.snapshots.rings[clock.cpu]; ring != nil && ring.event == clock {
			delete(p.snapshots.rings, clock.cpu)
			unix.Munmap(ring.mem)
		}
	}
	return clock.close()
}

// parse reads: u32 pid, tid; u64 time; u64 abi, regs[] unless abi is 0; u64 size, then unless size is 0 the bytes and
// u64 number of valid bytes.
func (s *PerfSnapshot) parse(b []byte) bool {
	const fixed = 8 + 8 + 8
	if len(b) < fixed {
		return false
	}
	u64 := binary.NativeEndian.Uint64
	*s = PerfSnapshot{PID: binary.NativeEndian.Uint32(b), TID: binary.NativeEndian.Uint32(b[4:]), Time: u64(b[8:])}
	return s.parseUser(b[16:])
}

// parseUser reads the part of a record from the abi on.
func (s *PerfSnapshot) parseUser(b []byte) bool {
	u64 := binary.NativeEndian.Uint64
	if len(b) < 8 {
		return false
	}
	abi := u64(b)
	b = b[8:]
	if abi != unix.PERF_SAMPLE_REGS_ABI_NONE {
		if len(b) < 8*len(regNumbers) {
			return false
		}
		for i, number := range regNumbers {
			v := u64(b[8*i:])
			if number == pcNumber {
				s.PC = v
			} else {
				s.Regs[number] = v
			}
		}
		b = b[8*len(regNumbers):]
	}
	s.InUser = abi == unix.PERF_SAMPLE_REGS_ABI_64
	if len(b) < 8 {
		return false
	}
	size := u64(b)
	b = b[8:]
	if size == 0 {
		return true
	}
	if uint64(len(b)) < 8 || size > uint64(len(b)-8) {
		return false
	}
	good := u64(b[size:])
	s.Stack, s.Full = b[:min(good, size)], good >= size
	return true
}
