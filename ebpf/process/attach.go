package process

import (
	"slices"
	"time"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/language"
)

// attachment is a language runtime in a process.
type attachment struct {
	exe     *Executable // the runtime's file, mapped by the process
	bias    uint64
	library language.Library

	code    *JITCode         // nil while unknown
	waiting []procfs.Mapping // anonymous memory that may hold the code
	busy    bool             // the runtime is being asked for the code
	failed  bool             // the code will never be known
	first   time.Time        // when the runtime was first asked
	tried   time.Time        // when it was last asked
}

// A runtime that has not started yet is asked again after retryAttach, until retriesAttach has passed.
const (
	retryAttach   = 10 * time.Millisecond
	retriesAttach = 10 * time.Second
)

// detect notes that a process has mapped an executable that may be a language runtime.
func (p *Process) detect(e *Executable, m *mapping) {
	if m.exe == nil || e.library == nil {
		return
	}
	known := slices.ContainsFunc(p.attached, func(a *attachment) bool { return a.exe == e || a.bias == m.bias })
	if !known {
		p.attached = append(p.attached, &attachment{exe: e, bias: m.bias, library: e.library})
	}
}

// inherit returns the runtimes that a child process inherits from its parent.
func inherit(parent []*attachment) (child []*attachment) {
	for _, a := range parent {
		child = append(child, &attachment{exe: a.exe, bias: a.bias, library: a.library, code: a.code, failed: a.failed})
	}
	return child
}

// takes reports whether m is, or may be, memory for code of a runtime. All memory for code of a runtime is one mapping.
func (p *Process) takes(m *procfs.Mapping) bool {
	return slices.ContainsFunc(p.attached, func(a *attachment) bool { return a.takes(m) })
}

func (a *attachment) takes(m *procfs.Mapping) bool {
	if a.failed || m.Inode != 0 || m.Path != "" && m.Path != "//anon" {
		return false
	}
	if a.code == nil {
		a.waiting = append(a.waiting, *m)
		return true
	}
	return m.Start < a.code.high && m.End > a.code.low
}

// waits reports whether for some memory it is unknown whether it holds code of a runtime.
func (p *Process) waits() bool {
	return slices.ContainsFunc(p.attached, func(a *attachment) bool { return len(a.waiting) > 0 })
}
