package engine

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// MachineCodeAt is an instruction of machine code that an interpreter generated from a function.
type MachineCodeAt struct {
	PC     uint64 // an address in the process
	Caller bool   // PC is a return address: the call before it is meant
	Of     CodeAt // the function
	Frame  int    // for the caller's use

	ID unwind.CodeID // set by MachineCode: the number of the code, or UnknownCode
	IP uint64        // set by MachineCode: offset of PC in the code
}

// lookup returns an address in the instruction that is meant.
func (a *MachineCodeAt) lookup() uint64 {
	if a.Caller {
		return a.PC - 1
	}
	return a.PC
}

const (
	// machineCodeWhile is how long code counts as unchanged after a check: after a runtime frees code, other code soon
	// takes its memory.
	machineCodeWhile = time.Second
	// machineCodeStale is how long code keeps its name if it cannot be compared with the process's memory.
	machineCodeStale = 10 * time.Second
)

// machineCodes are the pieces of machine code seen in samples. Safe for concurrent use.
type machineCodes struct {
	room *room                    // its mutex guards the rest
	of   map[uint32][]machineCode // by PID, sorted by address, without overlaps
}

// machineCode is a piece of code, or an instruction whose code is unknown.
type machineCode struct {
	low, high uint64
	of        CodeAt // the function
	id        unwind.CodeID
	stamp     uint64
	checked   time.Time // when the code was last found to be there
	used      time.Time
}

// findIndex returns the index of the piece that holds an address, or the index where it would be. The caller holds the
// lock.
func (m *machineCodes) findIndex(pid uint32, addr uint64) (at int, ok bool) {
	all := m.of[pid]
	at, _ = slices.BinarySearchFunc(all, addr, func(c machineCode, addr uint64) int {
		if c.high <= addr {
			return -1
		}
		return 1
	})
	return at, at < len(all) && all[at].low <= addr
}

// codeAt returns the piece that holds an address.
func (m *machineCodes) codeAt(pid uint32, addr uint64) (machineCode, bool) {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	if at, ok := m.findIndex(pid, addr); ok {
		return m.of[pid][at], true
	}
	return machineCode{}, false
}

// lookUp sets the ID and IP of an instruction if they are known. It reports whether they need no check.
func (m *machineCodes) lookUp(pid uint32, a *MachineCodeAt, now time.Time) bool {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	at, ok := m.findIndex(pid, a.lookup())
	if !ok {
		return false
	}
	c := &m.of[pid][at]
	c.used = now
	if c.of == a.Of && now.Sub(c.checked) < machineCodeStale {
		a.ID, a.IP = c.id, a.PC-c.low
	}
	return now.Sub(c.checked) < machineCodeWhile
}

// noteCode remembers a piece. The piece replaces those that it overlaps.
func (m *machineCodes) noteCode(pid uint32, c machineCode) {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	if at, ok := m.findIndex(pid, c.low); ok && m.of[pid][at].low == c.low && m.of[pid][at].high == c.high {
		m.of[pid][at] = c
		return
	}
	if !m.room.takeBytes(pid, machineCodeBytes, c.used) { // this may evict pieces
		return
	}
	if m.of == nil {
		m.of = map[uint32][]machineCode{}
	}
	all := m.of[pid]
	from, _ := m.findIndex(pid, c.low)
	to := from
	for to < len(all) && all[to].low < c.high {
		to++
	}
	m.room.giveBytes(pid, (to-from)*machineCodeBytes)
	m.of[pid] = slices.Replace(all, from, to, c)
}

// trimUnused forgets pieces that were not seen since a time.
func (m *machineCodes) trimUnused(since time.Time) {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	m.forget(since)
}

// forget implements holder.
func (m *machineCodes) forget(since time.Time) {
	for pid, all := range m.of {
		kept := slices.DeleteFunc(all, func(c machineCode) bool { return c.used.Before(since) })
		m.room.giveBytes(pid, (len(all)-len(kept))*machineCodeBytes)
		if m.of[pid] = kept; len(kept) == 0 {
			delete(m.of, pid)
		}
	}
}

// dropProcess implements holder.
func (m *machineCodes) dropProcess(pid uint32) {
	m.room.giveBytes(pid, len(m.of[pid])*machineCodeBytes)
	delete(m.of, pid)
}

// MachineCode finds the machine code that instructions of a process are in, if the interpreter generates any.
func (i *Interpreter) MachineCode(pid uint32, all []MachineCodeAt) {
	var compiler language.Compiler
	if i.frames != nil {
		compiler = i.frames.Compiler()
	}
	now := time.Now()
	var missing []*MachineCodeAt
	for n := range all {
		a := &all[n]
		a.ID = unwind.UnknownCode
		enough := i.machine.lookUp(pid, a, now)
		if a.ID != unwind.UnknownCode && !i.functions.useCode(a.ID, now) {
			a.ID, enough = unwind.UnknownCode, false
		}
		if compiler != nil && !enough && len(missing) < MaxReads {
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
	memory := i.engine.reads.memory(pid)
	i.engine.readWithin(memory, "code", func() bool {
		for n := range asked {
			if !i.readMachineCode(compiler, memory, &asked[n]) {
				return false
			}
		}
		return true
	})
	for _, a := range missing {
		a.ID = unwind.UnknownCode
		i.machine.lookUp(pid, a, now)
	}
}

// readMachineCode finds the code that an instruction is in, or confirms that known code is unchanged. It returns false
// if too few reads were left.
func (i *Interpreter) readMachineCode(by language.Compiler, m boundedMemory, a *MachineCodeAt) bool {
	now, checks := time.Now(), m.forChecks()
	refused := m.refused()
	c, known := i.machine.codeAt(m.PID, a.lookup())
	known = known && c.stamp != 0 && by.Stamp(checks, c.low) == c.stamp
	if m.refused() != refused {
		return false
	}
	if !known || c.of != a.Of || !i.functions.useCode(c.id, now) {
		if m.hasFewReads() {
			return false
		}
		found, err := by.MachineCode(m, a.lookup(), a.Of.Address)
		switch {
		case m.refused() != refused:
			return false
		case err == nil:
			c = machineCode{
				low: found.Low, high: found.High, of: a.Of, id: i.functions.number(m.PID, found.Function, now),
				stamp: found.Stamp, used: now,
			}
		case !known: // otherwise the frame is of another function: the leaf has no frame of its own yet
			m.senseless()
			at := a.lookup()
			c = machineCode{low: at, high: at + 1, of: a.Of, id: unwind.UnknownCode, used: now}
		}
	}
	c.checked = now
	i.machine.noteCode(m.PID, c)
	return true
}
