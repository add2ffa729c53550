package process

import (
	"debug/elf"
	"errors"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
)

// View is what is known of a process at one moment: its name, its address space, and the
// code that its language runtimes have made. It stays as it is. *View is an unwind.Space
// that builds pages of rows where they are missing.
type View struct {
	tracker        *Tracker
	pid            uint32
	time           uint64
	comm           string
	changes        changes
	unreported     bool // the process ran another program than was reported
	execs          int
	mappings       mappings
	code           []*JITCode
	interpretation *interpretation
	interpreter    *Interpreter // of it
}

// At returns what is known of a process at a time: of the present program, or of one that
// it ran before.
func (t *Tracker) At(pid uint32, time uint64) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at(t.state.processes[pid], pid, time)
}

// AtExec is At for a time at which the kernel's number of the program was exec, 0: not known. Of another program than
// the one that was reported, nothing is known.
func (t *Tracker) AtExec(pid uint32, time uint64, exec uint32) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.state.processes[pid]
	v := t.at(p, pid, time)
	if p == nil || exec == 0 || time < p.begun || t.state.learnExec(p, exec-uint32(v.execs)) {
		return v
	}
	if time >= p.started {
		t.state.startUnreported(p, time)
	}
	v.unreported = true
	v.mappings, v.code, v.interpretation, v.interpreter = nil, nil, nil, nil
	return v
}

// at returns what is known of a process at a time. The caller holds t.mu.
func (t *Tracker) at(p *Process, pid uint32, time uint64) View {
	v := View{tracker: t, pid: pid, time: time}
	if p == nil || time < p.begun { // another process had the PID
		return v
	}
	t.state.mergeMappings(p)
	v.comm, v.changes, v.execs = p.commAt(time), p.changes, p.execs
	v.mappings, v.code = p.mappings, p.code // replaced, never changed
	v.interpretation = p.interpretation
	if i := slices.IndexFunc(p.epochs, func(e epoch) bool { return time < e.until }); i >= 0 {
		old := &p.epochs[i]
		v.comm, v.execs = old.name.commAt(time), old.execs
		v.mappings, v.code, v.interpretation = old.mappings, old.code, old.interpretation
	}
	if v.interpretation != nil {
		v.interpreter = v.interpretation.interpreter
	}
	for _, c := range v.code {
		c.used.Store(true)
	}
	return v
}

// Comm returns the name that the process had, "" if that is not known.
func (v *View) Comm() string { return v.comm }

// Machine returns the instruction set of the process.
func (v *View) Machine() elf.Machine { return v.tracker.machine }

// Code returns the code that the process's language runtimes make.
func (v *View) Code() []*JITCode { return v.code }

// Program returns the file that the process runs, 0 if that is not known: of the files that it has mapped, the one at
// the lowest address (Linux, fs/binfmt_elf.c: programs are mapped below libraries, and their interpreter with those).
func (v *View) Program() unwind.ExeID {
	for _, m := range v.mappings {
		if m.exe != nil {
			return m.exe.ID
		}
	}
	return 0
}

// Stale reports whether mappings of the given generation are not those that the process
// had: it had started another program by then, or put another file where there was one.
func (v *View) Stale(generation uint32) bool {
	return generation != 0 && (v.unreported || v.changes.stale(v.time, generation))
}

// find returns the mapping that holds an address. Of memory in doubt nothing is known.
func (v *View) find(addr uint64) (mapping, bool) {
	m, ok := v.mappings.find(addr)
	if !ok || m.doubt {
		return mapping{}, false
	}
	return m, true
}

// Rule returns the rule that holds at an address.
func (v *View) Rule(addr uint64) (unwind.WideRule, unwind.Outcome) {
	m, ok := v.find(addr)
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
	rule, ok, err := m.exe.rule(v.tracker.store, &v.tracker.ahead, addr-m.bias)
	v.tracker.failed(err)
	switch {
	case !ok:
		return unwind.WideRule{}, unwind.PageMissing
	case rule.CFA == unwind.CFAAbsent: // nor is there code now
		return unwind.WideRule{}, unwind.NoRow
	}
	return rule, unwind.Unset
}

// CallFrame returns what call frame information states about an address, and by how
// much the file is loaded above its ELF virtual addresses; false where nothing is.
func (v *View) CallFrame(addr uint64) (c unwind.CallFrame, bias uint64, ok bool) {
	m, ok := v.find(addr)
	if !ok || !m.hasPages() {
		return c, 0, false
	}
	c, ok, err := m.exe.callFrame(addr - m.bias)
	v.tracker.failed(err)
	return c, m.bias, ok
}

// Mapped returns Unset if the process has an executable mapping at an address, and
// otherwise why none is known.
func (v *View) Mapped(addr uint64) unwind.Outcome {
	if len(v.mappings) == 0 {
		return unwind.ProcessUnknown
	}
	if _, ok := v.find(addr); !ok && !v.atVSyscall(addr) {
		return unwind.NoMapping
	}
	return unwind.Unset
}

// Outermost reports whether the code at an address is that at which the kernel starts the file mapped there.
func (v *View) Outermost(addr uint64) bool {
	m, ok := v.find(addr)
	if !ok || !m.hasPages() {
		return false
	}
	outermost, err := m.exe.outermost(addr - m.bias)
	v.tracker.failed(err)
	return outermost
}

// Locate returns the executable that holds an address, and its ELF virtual
// address there; 0 and the address itself when there is none.
func (v *View) Locate(addr uint64) (exe unwind.ExeID, vaddr uint64) {
	m, ok := v.find(addr)
	if !ok || m.exe == nil {
		return 0, addr
	}
	return m.exe.ID, addr - m.bias
}

// recentPages bounds the pages that an executable remembers for walks in user
// space while the store has no room for them.
const recentPages = 16

// rule returns the rule that holds at vaddr, and makes its page resident. Pages around it may go to ahead. There is a
// rule with an error, too: when the store has no room, or the page cannot be read.
func (e *Executable) rule(
	store Store, ahead *stretches, vaddr uint64,
) (rule unwind.WideRule, ok bool, err error) {
	i := e.image.Load()
	if rule, ok := store.Rule(i.directory, vaddr); ok && rule.CFA != unwind.CFAAbsent {
		return rule, true, nil
	}
	n := i.directory.Page(vaddr)
	i.building.Lock()
	defer i.building.Unlock()
	if rule, ok := store.Rule(i.directory, vaddr); ok && rule.CFA != unwind.CFAAbsent { // another walk was faster
		return rule, true, nil
	}
	if p := i.recent[n]; p != nil {
		if rule := p.Rule(vaddr); rule.CFA != unwind.CFAAbsent {
			return rule, true, nil
		}
	}
	p, unreadable := e.page(i, n)
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
			ahead.add(s)
		}
	}
	return p.Rule(vaddr), true, errors.Join(unreadable, err)
}

// Pauses between two readings of a process's mappings because an address was in
// none of them.
const (
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
)

// Refresh reads the mappings of a process again, because an address was in none
// of those known: not every mapping is reported, one that becomes executable
// later for example. It does so less and less often while nothing new is found.
func (t *Tracker) Refresh(pid uint32, addr uint64) {
	t.mu.Lock()
	p := t.state.processes[pid]
	if p != nil && !p.mayRefresh(addr) {
		t.mu.Unlock()
		return
	}
	c := t.state.scan(pid, nil)
	t.mu.Unlock()
	t.run(c)
	t.flush()
	t.mu.Lock()
	defer t.mu.Unlock()
	if p = t.state.processes[pid]; p == nil {
		return
	}
	t.state.mergeMappings(p)
	if _, ok := p.mappings.find(addr); ok {
		p.pause = minPause
	} else {
		p.pause = min(max(2*p.pause, minPause), maxPause)
	}
}

// mayRefresh reports whether it is time to read p's mappings again because of an address,
// which they then may have.
func (p *Process) mayRefresh(addr uint64) bool {
	m, ok := p.mappings.find(addr)
	switch {
	case p.ended != 0:
		return false
	case m.doubt:
		return p.doubts.again(p.scanned)
	case ok || time.Since(p.scanned) < p.pause:
		return false
	}
	for _, a := range p.attached {
		a.tried = time.Time{} // the runtime may have begun since
	}
	return true
}
