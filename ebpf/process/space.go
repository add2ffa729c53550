package process

import (
	"errors"
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
)

// Space is the address space of a process as it was at one moment. It is an
// unwind.Space that builds pages of rows where they are missing.
type Space struct {
	tracker  *Tracker
	pid      uint32
	mappings mappings
}

// Space returns the address space that a process had at a time: the present one,
// or that of a program it ran before.
func (t *Tracker) Space(pid uint32, time uint64) *Space {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &Space{tracker: t, pid: pid}
	if p := t.processes[pid]; p != nil {
		t.settle(p)
		s.mappings = p.mappings // replaced, never changed
		if p.vm.code != nil {
			p.vm.code.code.used.Store(true)
		}
		for _, old := range slices.Backward(p.previous) {
			if time < old.until {
				s.mappings = old.mappings
			}
		}
	}
	return s
}

// Rule returns the rule in force at an address.
func (s *Space) Rule(addr uint64) (unwind.WideRule, unwind.Outcome) {
	m, ok := s.mappings.find(addr)
	switch {
	case len(s.mappings) == 0:
		return unwind.WideRule{}, unwind.ProcessUnknown
	case !ok:
		return unwind.WideRule{}, unwind.NoMapping
	case m.exe == nil || m.exe.directory.Pages == 0:
		return unwind.WideRule{}, unwind.Unset // frame pointers
	}
	rule, ok, err := m.exe.rule(s.tracker.store, addr-m.bias)
	s.tracker.failed(err)
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
func (s *Space) CallFrame(addr uint64) (c unwind.CallFrame, bias uint64, ok bool) {
	m, ok := s.mappings.find(addr)
	if !ok || m.exe == nil || m.exe.directory.Pages == 0 {
		return c, 0, false
	}
	c, ok, err := m.exe.callFrame(addr - m.bias)
	s.tracker.failed(err)
	return c, m.bias, ok
}

// Locate returns the executable that holds an address, and its ELF virtual
// address there; 0 and the address itself when there is none.
func (s *Space) Locate(addr uint64) (exe uint32, vaddr uint64) {
	m, ok := s.mappings.find(addr)
	if !ok || m.exe == nil {
		return 0, addr
	}
	return m.exe.ID, addr - m.bias
}

// recentPages bounds the pages that an executable remembers for walks in user
// space while the store has no room for them.
const recentPages = 16

// rule returns the rule in force at vaddr, and makes its page resident. There is a
// rule with an error, too: when the store has no room, or the page cannot be read.
func (e *Executable) rule(store Store, vaddr uint64) (rule unwind.WideRule, ok bool, err error) {
	if rule, ok := store.Rule(e.directory, vaddr); ok && rule.CFA != unwind.CFAAbsent {
		return rule, true, nil
	}
	n := e.directory.Page(vaddr)
	e.building.Lock()
	defer e.building.Unlock()
	if rule, ok := store.Rule(e.directory, vaddr); ok && rule.CFA != unwind.CFAAbsent { // another walk was faster
		return rule, true, nil
	}
	if p := e.recent[n]; p != nil && e.code == nil {
		return p.Rule(vaddr), true, nil
	}
	p, unreadable := e.page(n)
	if p == nil {
		return rule, false, unreadable
	}
	if e.directory.Holds(n) {
		err = store.SetPage(e.directory, n, p)
	}
	if err != nil {
		if e.recent == nil || len(e.recent) >= recentPages {
			e.recent = map[uint64]*unwind.Page{}
		}
		e.recent[n] = p
	}
	return p.Rule(vaddr), true, errors.Join(unreadable, err)
}

// Pauses between two readings of a process's mappings because an address was in
// none of them.
const (
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
)

// Refresh reads the mappings of a process anew, because an address was in none
// of those known: not every mapping is reported, one that becomes executable
// later for example. It does so less and less often while nothing new is found.
func (t *Tracker) Refresh(pid uint32, addr uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p != nil {
		if _, ok := p.mappings.find(addr); ok || p.ended != 0 || time.Since(p.scanned) < p.pause {
			return
		}
	}
	if p != nil {
		p.vm.tried = time.Time{} // the VM may have begun since
	}
	if p = t.scan(pid); p == nil {
		return
	}
	t.flush()
	if _, ok := p.mappings.find(addr); ok {
		p.pause = minPause
	} else {
		p.pause = min(max(2*p.pause, minPause), maxPause)
	}
}
