package process

import (
	"debug/elf"
	"encoding/binary"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwindtable"
)

// Code that a program has made for itself, as the regular expressions of PCRE are, has
// no rows. What it does until it returns shows where the caller's frame is. It is read
// from the process's memory when a stack is finished, so it may have changed by then,
// if seldom: what comes of it counts only if it is a return address.

// codeRead are how many bytes of code before and after an instruction are looked at:
// few at first, since most functions are short.
var codeRead = [...]uint64{1 << 10, 8 << 10}

// anonCode remembers the rules of code that processes have anon. Safe for concurrent
// use.
type anonCode struct {
	mu    sync.Mutex
	rules map[codePlace]codeRule
	looks allowance
}

type codePlace struct {
	pid  uint32
	addr uint64
}

// codeRule is the rule at a place, as long as the code is what it was.
type codeRule struct {
	code [32]byte
	rule unwind.WideRule
	ok   bool
}

// maxCodeRules bounds what is remembered.
const maxCodeRules = 4096

// RuleByAnalysis returns the rule at the instruction at addr, in code that is of no file,
// and false where the code does not show it.
func (v *View) RuleByAnalysis(machine elf.Machine, addr uint64) (unwind.WideRule, bool) {
	m, ok := v.find(addr)
	if !ok || m.exe != nil || m.remote {
		return unwind.WideRule{}, false
	}
	anon := &v.tracker.anon
	memory := v.tracker.memory(v.pid)
	var r codeRule
	if _, err := memory.ReadAt(r.code[:min(uint64(len(r.code)), m.end-addr)], int64(addr)); err != nil {
		return unwind.WideRule{}, false // the process is gone
	}
	place := codePlace{v.pid, addr}
	anon.mu.Lock()
	known, ok := anon.rules[place]
	same := ok && known.code == r.code
	may := same || anon.looks.take(time.Now())
	anon.mu.Unlock()
	if same || !may {
		return known.rule, same && known.ok
	}
	for _, size := range codeRead {
		start := addr - min(size, addr-m.start)
		code := make([]byte, addr-start+min(size, m.end-addr))
		n, _ := memory.ReadAt(code, int64(start)) // what there is
		if r.rule, r.ok = unwindtable.RuleByAnalysis(machine, code[:n], start, addr, m.start, m.end); r.ok {
			break
		}
	}
	anon.mu.Lock()
	defer anon.mu.Unlock()
	if anon.rules == nil || len(anon.rules) >= maxCodeRules {
		anon.rules = map[codePlace]codeRule{}
	}
	anon.rules[place] = r
	if r.ok {
		anon.looks.left++ // it was of use, and did not take long
	}
	return r.rule, r.ok
}

// allowance bounds how often something is done.
type allowance struct {
	left int
	last time.Time // when left was counted
}

// To look at a place takes half a millisecond where the code does not show the rule, and a tenth
// of that where it does. Hosts with interpreters and compilers that make code have ever
// new places of the first kind, which took two thirds of all our CPU time.
const (
	looksAtOnce    = 512
	looksPerSecond = 8
)

// take reports whether it may be done once more.
func (a *allowance) take(now time.Time) bool {
	if a.last.IsZero() {
		a.left, a.last = looksAtOnce, now
	}
	if more := int(now.Sub(a.last).Seconds() * looksPerSecond); more > 0 {
		a.left, a.last = min(a.left+more, looksAtOnce), now
	}
	if a.left <= 0 {
		return false
	}
	a.left--
	return true
}

// Called reports whether a call may return to addr, in executable memory, or a signal handler. Code of files is read
// from them: the process may have ended.
func (v *View) Called(addr uint64) bool {
	m, ok := v.find(addr - 1)
	switch {
	case !ok:
		return false
	case m.exe != nil:
		if called, known := m.exe.called(v.Machine(), addr-m.bias); known {
			return called
		}
	}
	return !m.remote && unwind.ReturnsTo(v.Machine(), addr, codeWords{v.tracker.memory(v.pid)})
}

// codeWords reads words of code.
type codeWords struct{ memory memory }

func (m codeWords) ReadU64(addr uint64) (uint64, bool) {
	var b [8]byte
	_, err := m.memory.ReadAt(b[:], int64(addr))
	return binary.LittleEndian.Uint64(b[:]), err == nil
}
