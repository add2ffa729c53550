package process

import (
	"debug/elf"
	"encoding/binary"
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
)

// Code that a program has generated for itself, such as compiled regular expressions of PCRE, has no rows. The
// instructions until it returns show where the caller's frame is. The code is read from the process's memory when a
// stack is finished. It may have changed by then, though rarely, so the result counts only if it is a return address.

// codeRead is how many bytes of code before and after an instruction are read: few at first, because most functions are
// short.
var codeRead = [...]uint64{1 << 10, 8 << 10}

// anonCode remembers the rules of anonymous code in processes. Safe for concurrent use.
type anonCode struct {
	mu    sync.Mutex
	rules map[codePlace]codeRule
	looks allowance
}

type codePlace struct {
	pid  uint32
	addr uint64
}

// codeRule is the rule at a place while the code there is unchanged.
type codeRule struct {
	code [32]byte
	rule unwind.WideRule
	ok   bool
}

// maxCodeRules bounds the remembered rules.
const maxCodeRules = 4096

// RuleByAnalysis returns the rule at the instruction at addr, in code that is in no file, or false if the code does not
// show it.
func (v *View) RuleByAnalysis(machine elf.Machine, addr uint64) (unwind.WideRule, bool) {
	m, ok := v.findMapping(addr)
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
	may := same || anon.looks.takeTime(time.Now())
	anon.mu.Unlock()
	if same || !may {
		return known.rule, same && known.ok
	}
	for _, size := range codeRead {
		start := addr - min(size, addr-m.start)
		code := make([]byte, addr-start+min(size, m.end-addr))
		n, _ := memory.ReadAt(code, int64(start)) // as much as can be read
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
		anon.looks.left++ // useful and fast: it does not count
	}
	return r.rule, r.ok
}

// allowance bounds how often something is done.
type allowance struct {
	left int
	last time.Time // when left was last increased
}

// An analysis takes half a millisecond if the code does not show the rule, and a tenth of that time otherwise. Hosts
// with interpreters and compilers that generate code keep producing new places of the first kind, whose analysis took
// two thirds of the profiler's CPU time.
const (
	looksAtOnce    = 512
	looksPerSecond = 8
)

// takeTime reports whether the operation may be done once more, and counts it.
func (a *allowance) takeTime(now time.Time) bool {
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

// Called reports whether a call or a signal handler may return to addr, in executable memory. Code of files is read
// from the files, because the process may have ended.
func (v *View) Called(addr uint64) bool {
	m, ok := v.findMapping(addr - 1)
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
