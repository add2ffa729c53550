package process

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/filework"
	"github.com/headwater/headwater/ebpf/procfs"
	"github.com/headwater/headwater/ebpf/runtime"
	"github.com/headwater/headwater/ebpf/unwind"
)

// MachineCodeAt is an instruction of machine code that an interpreter made of a function.
type MachineCodeAt struct {
	PC     uint64 // an address in the process
	Caller bool   // it returns to PC: the call before is meant
	Of     CodeAt // the function
	Frame  int    // for the caller's use

	ID unwind.CodeID // set by MachineCode: the number of the code, UnknownCode if nothing is known of it
	IP uint64        // and where in it the instruction is
}

// lookup returns an address in the instruction that is meant.
func (a *MachineCodeAt) lookup() uint64 {
	if a.Caller {
		return a.PC - 1
	}
	return a.PC
}

const (
	// machineCodeWhile is how long code is taken to be what it was: when a runtime frees code, other code soon has its
	// memory.
	machineCodeWhile = time.Second
	// maxMachineCode bounds what is remembered of the code of all processes of an interpreter.
	maxMachineCode = 1 << 16
)

// machineCodes are the pieces of code that were met. Safe for concurrent use.
type machineCodes struct {
	mu  sync.Mutex
	of  map[uint32][]machineCode // by PID, in the order of addresses, none over another
	all int
}

// machineCode is a piece of code, or an instruction that nothing is known of.
type machineCode struct {
	low, high uint64
	of        CodeAt // the function
	id        unwind.CodeID
	stamp     uint64
	checked   time.Time // that it is still there
	used      time.Time
}

// find returns the index of the piece that an address is in, or where one would be. The lock is held.
func (m *machineCodes) find(pid uint32, addr uint64) (at int, ok bool) {
	all := m.of[pid]
	at, _ = slices.BinarySearchFunc(all, addr, func(c machineCode, addr uint64) int {
		if c.high <= addr {
			return -1
		}
		return 1
	})
	return at, at < len(all) && all[at].low <= addr
}

// at returns the piece that an address is in.
func (m *machineCodes) at(pid uint32, addr uint64) (machineCode, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.find(pid, addr); ok {
		return m.of[pid][at], true
	}
	return machineCode{}, false
}

// lookUp sets what is known of an instruction. It reports whether that is enough.
func (m *machineCodes) lookUp(pid uint32, a *MachineCodeAt, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.find(pid, a.lookup())
	if !ok {
		return false
	}
	c := &m.of[pid][at]
	c.used = now
	if c.of == a.Of {
		a.ID, a.IP = c.id, a.PC-c.low
	}
	return now.Sub(c.checked) < machineCodeWhile
}

// note remembers a piece, in the place of those that it lies over.
func (m *machineCodes) note(pid uint32, c machineCode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[uint32][]machineCode{}
	}
	all := m.of[pid]
	from, _ := m.find(pid, c.low)
	to := from
	for to < len(all) && all[to].low < c.high {
		to++
	}
	if m.all-(to-from) >= maxMachineCode {
		return
	}
	m.all += 1 - (to - from)
	m.of[pid] = slices.Replace(all, from, to, c)
}

// trim forgets what was not met since a time.
func (m *machineCodes) trim(since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for pid, all := range m.of {
		kept := slices.DeleteFunc(all, func(c machineCode) bool { return c.used.Before(since) })
		if m.all -= len(all) - len(kept); len(kept) == 0 {
			delete(m.of, pid)
			continue
		}
		m.of[pid] = kept
	}
}

// MachineCode finds the machine code that instructions of a process are in, if the interpreter makes any.
func (i *Interpreter) MachineCode(t *Tracker, pid uint32, all []MachineCodeAt) {
	compiling, ok := i.runs.(runtime.Compiling)
	now := time.Now()
	var missing []*MachineCodeAt
	for n := range all {
		a := &all[n]
		a.ID = unwind.UnknownCode
		enough := i.machine.lookUp(pid, a, now)
		if a.ID != unwind.UnknownCode && !i.functions.use(a.ID, now) {
			a.ID, enough = unwind.UnknownCode, false
		}
		if ok && !enough && len(missing) < MaxReads {
			missing = append(missing, a)
		}
	}
	if len(missing) == 0 {
		return
	}
	asked := make([]MachineCodeAt, 0, len(missing))
	for _, a := range missing {
		asked = append(asked, *a)
	}
	what := fmt.Sprintf("reading code of process %d", pid)
	_, err := filework.Get(t.exes.work, memoryOf(t.fs, pid), what, readPatience, func() (struct{}, error) {
		for n := range asked {
			i.readMachineCode(compiling, pid, &asked[n])
		}
		return struct{}{}, nil
	}, nil)
	if err != nil {
		t.failed(err)
	}
	for _, a := range missing {
		i.machine.lookUp(pid, a, now)
	}
}

// readMachineCode finds the code that an instruction is in, or that it is still the same.
func (i *Interpreter) readMachineCode(by runtime.Compiling, pid uint32, a *MachineCodeAt) {
	now, memory := time.Now(), procfs.Memory{PID: pid}
	c, known := i.machine.at(pid, a.lookup())
	known = known && c.stamp != 0 && by.Stamp(memory, c.low) == c.stamp
	if !known || c.of != a.Of || !i.functions.use(c.id, now) {
		found, err := by.MachineCode(memory, a.lookup(), a.Of.Address)
		switch {
		case err == nil:
			c = machineCode{
				low: found.Low, high: found.High, of: a.Of, id: i.functions.number(found.Function, now),
				stamp: found.Stamp, used: now,
			}
		case !known: // else the frame is of another function: the leaf has none of its own yet
			at := a.lookup()
			c = machineCode{low: at, high: at + 1, of: a.Of, id: unwind.UnknownCode, used: now}
		}
	}
	c.checked = now
	i.machine.note(pid, c)
}
