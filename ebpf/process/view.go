package process

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/language/engine"
	"github.com/headwater/headwater/ebpf/unwind"
)

// View is the state of a process at one moment: its name, its address space, and the code that its language runtimes
// have generated. It does not change. *View is an unwind.Space that builds pages of rows if they are missing.
type View struct {
	tracker     *Tracker
	pid         uint32
	time        uint64
	comm        string
	changes     changes
	unreported  bool // the process ran a program that was not reported
	execs       int
	mappings    mappings
	code        []*JITCode
	interpreted *interpretedRuntime
	interpreter *engine.Interpreter // of interpreted
	makers      []string            // of interpreted
}

// At returns the View of a process at a time, in its present program or in an earlier one.
func (t *Tracker) At(pid uint32, time uint64) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.viewAt(t.state.processes[pid], pid, time)
}

// AtExec is like At, for a time at which exec was the kernel's number of the process's program, 0 if unknown. If that
// program was not reported, the View has no mappings and no code.
func (t *Tracker) AtExec(pid uint32, time uint64, exec uint32) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.state.processes[pid]
	v := t.viewAt(p, pid, time)
	if p == nil || exec == 0 || time < p.begun || t.state.learnExec(p, exec-uint32(v.execs)) {
		return v
	}
	if time >= p.started {
		t.state.startUnreported(p, time)
	}
	v.unreported = true
	v.mappings, v.code, v.interpreted, v.interpreter = nil, nil, nil, nil
	return v
}

// viewAt returns the View of a process at a time. The caller holds t.mu.
func (t *Tracker) viewAt(p *Process, pid uint32, time uint64) View {
	v := View{tracker: t, pid: pid, time: time}
	if p == nil || time < p.begun { // another process had the PID
		return v
	}
	t.state.mergeMappings(p)
	v.comm, v.changes, v.execs = p.commAt(time), p.changes, p.execs
	v.mappings, v.code = p.mappings, p.code // replaced, never changed
	v.interpreted = p.interpreted
	if i := slices.IndexFunc(p.epochs, func(e epoch) bool { return time < e.until }); i >= 0 {
		old := &p.epochs[i]
		v.comm, v.execs = old.name.commAt(time), old.execs
		v.mappings, v.code, v.interpreted = old.mappings, old.code, old.interpreted
	}
	if v.interpreted != nil {
		v.interpreter, v.makers = v.interpreted.interpreter, v.interpreted.makers
	}
	for _, c := range v.code {
		c.used.Store(true)
	}
	return v
}

// Comm returns the name that the process had, or "" if unknown.
func (v *View) Comm() string { return v.comm }

// Machine returns the instruction set of the process.
func (v *View) Machine() elf.Machine { return v.tracker.machine }

// Code returns the code that the process's language runtimes have generated.
func (v *View) Code() []*JITCode { return v.code }

// Runtime returns the runtime of the process that runs functions of a language, or false if it has none.
func (v *View) Runtime() (engine.ProcessRuntime, bool) {
	i := v.interpreted
	if i == nil {
		return engine.ProcessRuntime{}, false
	}
	return engine.ProcessRuntime{
		Interpreter: v.interpreter, PID: v.pid, File: i.exe.ID, Library: i.library, Bias: i.bias, Code: v,
		Lookups: i.lookups, Makers: v.makers,
	}, true
}

// Evaluates implements [engine.CodeOf].
func (v *View) Evaluates(exe unwind.ExeID, vaddr uint64) bool {
	at := slices.IndexFunc(v.code, func(c *JITCode) bool { return c.Exe() == exe })
	return at >= 0 && v.code[at].Evaluates(vaddr)
}

// Program returns the file of the program that the process runs, or 0 if unknown. It is the mapped file at the lowest
// address: the kernel maps programs below libraries and below program interpreters (Linux, fs/binfmt_elf.c).
func (v *View) Program() unwind.ExeID {
	for _, m := range v.mappings {
		if m.exe != nil {
			return m.exe.ID
		}
	}
	return 0
}

// Stale reports whether the mappings of a generation were outdated at the time of the View: the process had started
// another program, or had mapped one file over another.
func (v *View) Stale(generation uint32) bool {
	return generation != 0 && (v.unreported || v.changes.stale(v.time, generation))
}

// findMapping returns the mapping that holds an address, unless that mapping is in doubt.
func (v *View) findMapping(addr uint64) (mapping, bool) {
	m, ok := v.mappings.findMapping(addr)
	if !ok || m.doubt {
		return mapping{}, false
	}
	return m, true
}

// Rule returns the unwind rule at an address.
func (v *View) Rule(addr uint64) (unwind.WideRule, unwind.Outcome) {
	m, ok := v.findMapping(addr)
	switch {
	case len(v.mappings) == 0:
		return unwind.WideRule{}, unwind.ProcessUnknown
	case v.atVSyscall(addr):
		return atStart, unwind.Unset
	case !ok:
		return unwind.WideRule{}, unwind.NoMapping
	case m.pending():
		return unwind.WideRule{}, unwind.PageMissing
	case !m.hasPages():
		return unwind.WideRule{}, unwind.Unset // frame pointers
	}
	rule, ok, err := m.exe.ruleAt(v.tracker.store, &v.tracker.ahead, addr-m.bias)
	v.tracker.failed(err)
	switch {
	case !ok:
		return unwind.WideRule{}, unwind.PageMissing
	case rule.CFA == unwind.CFAAbsent: // there is no code at addr now
		return unwind.WideRule{}, unwind.NoRow
	}
	return rule, unwind.Unset
}

// aroundBytes is how much of a process's memory BuildAround reads.
const aroundBytes = 2048

// BuildAround builds the pages of rows of the code that words from an address on point to, so that the next walk over
// such words misses none. The words may have changed since the walk that missed.
func (v *View) BuildAround(code *JITCode, addr uint64) {
	b := make([]byte, aroundBytes)
	n, _ := v.tracker.fs.Memory(v.pid).ReadAt(b, int64(addr)) // what cannot be read now is built after the next miss
	for b = b[:max(n, 0)]; len(b) >= 8; b = b[8:] {
		if word := binary.LittleEndian.Uint64(b); word > code.low && word <= code.high {
			v.Rule(word - 1)
		}
	}
}

// CallFrame returns the call frame information for an address and the load bias of its file, or false if there is none.
func (v *View) CallFrame(addr uint64) (c unwind.CallFrame, bias uint64, ok bool) {
	m, ok := v.findMapping(addr)
	if !ok || !m.hasPages() {
		return c, 0, false
	}
	c, ok, err := m.exe.callFrame(addr - m.bias)
	v.tracker.failed(err)
	return c, m.bias, ok
}

// Mapped returns Unset if the process has an executable mapping at an address, and otherwise the reason why none is
// known.
func (v *View) Mapped(addr uint64) unwind.Outcome {
	if len(v.mappings) == 0 {
		return unwind.ProcessUnknown
	}
	if _, ok := v.findMapping(addr); !ok && !v.atVSyscall(addr) {
		return unwind.NoMapping
	}
	return unwind.Unset
}

// Outermost reports whether an address is in the code at the entry point of the file mapped there.
func (v *View) Outermost(addr uint64) bool {
	m, ok := v.findMapping(addr)
	if !ok || !m.hasPages() {
		return false
	}
	outermost, err := m.exe.outermost(addr - m.bias)
	v.tracker.failed(err)
	return outermost
}

// Locate returns the executable that holds an address and the ELF virtual address there, or 0 and the address itself if
// there is none.
func (v *View) Locate(addr uint64) (exe unwind.ExeID, vaddr uint64) {
	m, ok := v.findMapping(addr)
	if !ok || m.exe == nil {
		return 0, addr
	}
	return m.exe.ID, addr - m.bias
}

// recentPages bounds the pages of an executable that are kept for walks in user space because the store has no room for
// them.
const recentPages = 16

// ruleAt returns the unwind rule at vaddr and makes its page resident. It may queue pages around it in ahead. It may
// return a rule together with an error: the store has no room, or the page cannot be read.
func (e *Executable) ruleAt(
	store Store, ahead *stretches, vaddr uint64,
) (rule unwind.WideRule, ok bool, err error) {
	i := e.image.Load()
	if rule, ok := store.Rule(i.directory, vaddr); ok && rule.CFA != unwind.CFAAbsent {
		return rule, true, nil
	}
	n := i.directory.Page(vaddr)
	i.building.Lock()
	defer i.building.Unlock()
	if rule, ok := store.Rule(i.directory, vaddr); ok && rule.CFA != unwind.CFAAbsent { // another walk built it
		return rule, true, nil
	}
	if p := i.recent[n]; p != nil {
		if rule := p.Rule(vaddr); rule.CFA != unwind.CFAAbsent {
			return rule, true, nil
		}
	}
	p, unreadable := e.buildPage(i, n)
	if p == nil {
		return rule, false, unreadable
	}
	if i.directory.Holds(n) {
		err = store.SetPage(i.directory, n, p)
	}
	if err != nil {
		if i.recent == nil || len(i.recent) >= recentPages {
			i.recent = map[uint64]*unwind.Page{}
		}
		i.recent[n] = p
	}
	if unreadable == nil && err == nil {
		if s, ok := i.around(n); ok {
			ahead.addStretch(s)
		}
	}
	return p.Rule(vaddr), true, errors.Join(unreadable, err)
}

// Bounds of the pause between two reads of a process's mappings when no mapping holds a sampled address.
const (
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
)

// Refresh reads the mappings of a process again because no known mapping holds addr. The kernel does not report every
// mapping, for example not one that becomes executable later. The pause between reads doubles while the address is not
// found.
func (t *Tracker) Refresh(pid uint32, addr uint64) {
	t.mu.Lock()
	p := t.state.processes[pid]
	if p != nil && !p.mayRefresh(addr) {
		t.mu.Unlock()
		return
	}
	c := t.state.scanCommand(pid, nil)
	t.mu.Unlock()
	t.runCommands(c)
	t.flush()
	t.mu.Lock()
	defer t.mu.Unlock()
	if p = t.state.processes[pid]; p == nil {
		return
	}
	t.state.mergeMappings(p)
	if _, ok := p.mappings.findMapping(addr); ok {
		p.pause = minPause
	} else {
		p.pause = min(max(2*p.pause, minPause), maxPause)
	}
}

// mayRefresh reports whether to read p's mappings again now because of addr.
func (p *Process) mayRefresh(addr uint64) bool {
	m, ok := p.mappings.findMapping(addr)
	switch {
	case p.ended != 0:
		return false
	case m.doubt:
		return p.doubts.again(p.scanned)
	case ok || time.Since(p.scanned) < p.pause:
		return false
	}
	for _, a := range p.attached {
		a.tried = time.Time{} // the runtime may have started since
	}
	return true
}
