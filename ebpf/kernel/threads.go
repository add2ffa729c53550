package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/headwater/headwater/ebpf/unwind"
)

// ThreadState is the state of a thread.
type ThreadState uint8

// The states of a thread.
const (
	Running         ThreadState = iota // on a CPU
	Runnable                           // waits for a CPU
	Sleeping                           // waits, and signals wake it
	Uninterruptible                    // waits, and signals do not wake it: mostly for a disk
	Stopped                            // by a signal
	Traced                             // stopped by a debugger
	Frozen                             // with its cgroup, or while the host suspends
	Idle                               // an idle thread of the kernel
	Ended                              // it has ended, but is still listed
)

// String returns the usual name of the state.
func (s ThreadState) String() string {
	switch s {
	case Running:
		return "running"
	case Runnable:
		return "runnable"
	case Sleeping:
		return "sleeping"
	case Uninterruptible:
		return "uninterruptible"
	case Stopped:
		return "stopped"
	case Traced:
		return "traced"
	case Frozen:
		return "frozen"
	case Idle:
		return "idle"
	case Ended:
		return "ended"
	}
	return "unknown"
}

// ParseThreadState returns the state with a name that String returns.
func ParseThreadState(name string) (ThreadState, bool) {
	for s := Running; s <= Ended; s++ {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// Waits reports whether the thread waits for something other than a CPU.
func (s ThreadState) Waits() bool { return s == Sleeping || s == Uninterruptible }

// Bits of task_struct.__state and exit_state, include/linux/sched.h.
const (
	taskInterruptible   = 0x1
	taskUninterruptible = 0x2
	taskStopped         = 0x4
	taskTraced          = 0x8
	taskParked          = 0x40
	taskDead            = 0x80
	taskNoLoad          = 0x400  // with taskUninterruptible: idle
	taskRTLockWait      = 0x1000 // for a lock of the kernel, with PREEMPT_RT
	taskFrozen          = 0x8000 // since Linux 6.1; the BPF program also sets it for a frozen cgroup of version 2
)

func threadState(state, exit uint32, onCPU bool) ThreadState {
	switch {
	case exit != 0 || state&taskDead != 0:
		return Ended
	case onCPU:
		return Running
	case state&taskTraced != 0:
		return Traced
	case state&taskStopped != 0:
		return Stopped
	case state&taskFrozen != 0: // the kernel also sets it for stopped and traced threads of such a cgroup
		return Frozen
	case state&taskParked != 0, state&taskUninterruptible != 0 && state&taskNoLoad != 0:
		return Idle
	case state&(taskUninterruptible|taskRTLockWait) != 0: // /proc shows taskRTLockWait in the same way
		return Uninterruptible
	case state&taskInterruptible != 0:
		return Sleeping
	}
	return Runnable
}

// NoCall is the Call of a thread that is in no system call.
const NoCall = -1

// Thread is a thread at one moment of a pass. Kernel is valid until the function that gets the Thread returns.
type Thread struct {
	PID, TID uint32
	Comm     string // its name
	Time     uint64 // of the record, CLOCK_MONOTONIC, ns
	Started  uint64 // CLOCK_MONOTONIC, ns; with TID its identity

	State ThreadState
	CPU   uint32 // where it runs, or has run last
	// Switches is how often it has left a CPU. While a thread is not Running and its Switches stays the same, its
	// registers and stacks do not change.
	Switches uint64
	// Off is how long it has been off CPU, to within a tick of the kernel's timer (1 to 10 ms); negative if not known.
	Off  time.Duration
	Call int64 // number of the system call that it is in, or NoCall

	// Queued is how long the thread was queued for a CPU in all its life, until it last got one; negative if this
	// kernel does not count it.
	Queued time.Duration

	// Unmoved says that the thread is where its mark has it, in another state than when it was last read. Then Kernel,
	// Outcome and all fields below are not read.
	Unmoved bool
	// Stayed is the Stayed of the mark with its ID, see Mark; 0 if there is none.
	Stayed time.Duration
	// Copied says that the stack of the thread was copied when it left its CPU, and that all fields are of that time,
	// see CopiedStack.
	Copied bool
	// Displaced says that it is Runnable only because the thread that makes the pass runs on its CPU.
	Displaced bool

	Kernel []uint64 // addresses, leaf first; none of a Running thread

	// Outcome is Unset, or says why there are no registers. Regs are the registers with which the thread entered the
	// kernel; they are old if it is Running.
	Outcome       unwind.Outcome
	Regs          unwind.Regs
	ThreadPointer uint64
	StartStack    uint64 // address at which the kernel started the stack of the program's first thread

	// Returns are the return addresses on the thread's stack that return probes, of any tool, have replaced by
	// Trampoline. The caller owns them.
	Returns    []ReplacedReturn
	Trampoline uint64
}

// ReplacedReturn is a return address that a return probe has replaced.
type ReplacedReturn struct {
	Place   uint64 // its address on the stack
	Address uint64 // the true return address
}

// RestoreReturns puts the true return addresses into memory, which is a copy of the stack at an address.
func (t *Thread) RestoreReturns(memory []byte, at uint64) {
	for _, r := range t.Returns {
		place := r.Place - at
		switch size := uint64(len(memory)); {
		case t.Trampoline>>32 == 0 && place < size && size-place >= 4: // of a 32-bit program
			if binary.LittleEndian.Uint32(memory[place:]) == uint32(t.Trampoline) {
				binary.LittleEndian.PutUint32(memory[place:], uint32(r.Address))
			}
		case place < size && size-place >= 8:
			if binary.LittleEndian.Uint64(memory[place:]) == t.Trampoline {
				binary.LittleEndian.PutUint64(memory[place:], r.Address)
			}
		}
	}
}

// Threads reads the threads of this host without stopping them. It is safe for concurrent use.
type Threads struct {
	mu      sync.Mutex
	objects threadsObjects
	pass    *link.Iter
	buffer  []byte
	record  threadsThread

	wakers  *wakers  // nil if they are not watched
	leaving *leaving // nil if no stacks are copied

	unwanted uint32   // number of calls of WantAll
	checks   uint32   // number of the last Check
	checked  []uint32 // TIDs that were next in the last Check
	passes   uint32   // number of the last ReadMarked
	listed   int      // threads that the last ReadMarked went through
	marks    marksBuffer
	single   bool // threads can be read one by one, see oneThread
}

// OpenThreads loads the program that reads threads. It returns a *PermissionError when the process lacks capabilities.
// Close the Threads after use.
func OpenThreads() (*Threads, error) {
	if err := prepareToLoad(); err != nil {
		return nil, err
	}
	t := &Threads{buffer: make([]byte, threadsBuffer)}
	if err := t.openIterators(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// threadsBuffer is larger than the largest read of the kernel, eight pages of memory.
const threadsBuffer = 64 << 10

func (t *Threads) openIterators() error {
	if err := loadThreadsObjects(&t.objects, nil); err != nil {
		if errors.Is(err, ebpf.ErrNotSupported) {
			return fmt.Errorf("scan threads: this kernel is too old, or built without CONFIG_DEBUG_INFO_BTF; "+
				"it takes Linux 5.10: %w", err)
		}
		return fmt.Errorf("load the BPF program that scans threads: %w", err)
	}
	var err error
	if t.pass, err = link.AttachIter(link.IterOptions{Program: t.objects.ReadThreads}); err != nil {
		return fmt.Errorf("scan threads: %w", err)
	}
	if t.single, err = t.readsSingle(); err != nil {
		return err
	}
	return t.WantAll()
}

// Close unloads the program.
func (t *Threads) Close() error {
	err := errors.Join(t.IgnoreWakers(), t.closeLeaving())
	if t.pass != nil {
		err = errors.Join(err, t.pass.Close())
	}
	return errors.Join(err, t.objects.Close())
}

// Read hands the threads of a process to use, or with a tid only that thread, or with neither all threads of this host.
// It returns no error if there are none.
func (t *Threads) Read(pid, tid uint32, use func(*Thread)) error {
	return t.readFiltered(filter{pid: pid, tid: tid}, use)
}

// filter selects the threads to read; see the variables of bpf/threads.bpf.c.
type filter struct{ pid, tid, pass, check uint32 }

// readFiltered makes a pass. use may mark threads.
func (t *Threads) readFiltered(f filter, use func(*Thread)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readLocked(f, use)
}

func (t *Threads) readLocked(f filter, use func(*Thread)) error {
	if err := t.setFilter(f); err != nil {
		return err
	}
	return t.readFile(t.pass.Open, use)
}

// setFilter passes the filter to the program.
func (t *Threads) setFilter(f filter) error {
	err := errors.Join(t.objects.OnlyPid.Set(f.pid), t.objects.OnlyTid.Set(f.tid), t.objects.Pass.Set(f.pass),
		t.objects.OnlyCheck.Set(f.check))
	if err != nil {
		return fmt.Errorf("scan threads: %w", err)
	}
	return nil
}

// readFile hands the records of a file to use.
func (t *Threads) readFile(open func() (io.ReadCloser, error), use func(*Thread)) error {
	file, err := open()
	if err != nil {
		return fmt.Errorf("scan threads: %w", err)
	}
	defer file.Close()
	for had := 0; ; {
		n, err := file.Read(t.buffer[had:])
		if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("scan threads: %w", err)
		}
		rest, err := t.decodeAll(t.buffer[:had+n], use)
		if err != nil {
			return err
		}
		had = copy(t.buffer, rest)
	}
}

// decodeAll hands the records of b to use, and returns the incomplete record at the end of b.
func (t *Threads) decodeAll(b []byte, use func(*Thread)) (rest []byte, err error) {
	const head = int(unsafe.Offsetof(t.record.Kernel))
	for len(b) >= head {
		record := unsafe.Slice((*byte)(unsafe.Pointer(&t.record)), unsafe.Sizeof(t.record))
		copy(record[:head], b)
		frames, returns := int(t.record.KernelFrames), int(t.record.ReplacedReturns)
		if frames > len(t.record.Kernel) || returns > len(t.record.Returns) {
			return nil, fmt.Errorf("scan threads: a record has %d kernel frames and %d replaced return addresses",
				frames, returns)
		}
		kernel := head + 8*frames
		size := kernel + returns*int(unsafe.Sizeof(t.record.Returns[0]))
		if len(b) < size {
			break
		}
		copy(record[head:], b[head:kernel])
		copy(record[unsafe.Offsetof(t.record.Returns):], b[kernel:size])
		thread := t.record.thread()
		use(&thread)
		b = b[size:]
	}
	return b, nil
}

// thread returns the Thread of a record.
func (r *threadsThread) thread() Thread {
	flags := threadsThreadFlags(r.Flags)
	t := Thread{
		PID: r.Pid, TID: r.Tid, Time: r.Time, Started: r.Started,
		Comm:  cString(unsafe.Slice((*byte)(unsafe.Pointer(&r.Comm)), len(r.Comm))),
		State: threadState(r.State, r.ExitState, flags&threadsThreadFlagsTHREAD_ON_CPU != 0),
		CPU:   r.Cpu, Switches: r.Switches, Stayed: time.Duration(min(r.Stayed, 1<<62)), Off: -1, Queued: -1,
		Call:          NoCall,
		Kernel:        r.Kernel[:r.KernelFrames],
		Outcome:       unwind.Outcome(r.Outcome),
		ThreadPointer: r.ThreadPointer, StartStack: r.StartStack,
	}
	for _, of := range r.Returns[:r.ReplacedReturns] {
		t.Returns = append(t.Returns, ReplacedReturn{Place: of.Place, Address: of.Address})
	}
	t.Trampoline = r.Trampoline
	t.Unmoved = flags&threadsThreadFlagsTHREAD_UNMOVED != 0
	t.Displaced = flags&threadsThreadFlagsTHREAD_DISPLACED != 0 && t.State == Runnable
	if r.Queued < 1<<62 {
		t.Queued = time.Duration(r.Queued)
	}
	t.Copied = flags&threadsThreadFlagsTHREAD_COPIED != 0
	if flags&threadsThreadFlagsTHREAD_SINCE != 0 {
		t.Off = time.Duration(min(r.Off, 1<<62))
	}
	if flags&threadsThreadFlagsTHREAD_SYSTEM_CALL != 0 {
		t.Call = r.Call
	}
	if flags&threadsThreadFlagsTHREAD_REGISTERS != 0 {
		t.Regs = unwind.Regs{
			PC: r.Regs.Pc, SP: r.Regs.Sp, FP: r.Regs.Fp, LR: r.Regs.Lr, General: r.Regs.General,
			Exact: true, Full: r.Full != 0, LRKnown: r.LrValid != 0, Thread: r.goThread(),
		}
	}
	return t
}
