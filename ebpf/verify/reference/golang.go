package reference

import (
	"debug/elf"
	"slices"
	"strings"
)

// Kinds of functions in Go's runtime (runtime/asm_*.s, sys_linux_*.s, time_linux_*.s).
const (
	goRoots    = "roots"    // marked TOPFRAME: nothing called them
	goSwitches = "switches" // they write SP: what called them is on another stack, or may be
)

// goFunctions are the functions about which Go's .debug_frame cannot be taken at its
// word. It describes them as if they had been called and stayed on their stack; but it
// has no way to say what they do. The caller of one that has changed the stack is on
// a stack that perf does not copy, so that no rule would help.
func goFunctions() map[string][]string {
	return map[string][]string{
		goRoots: {"runtime.goexit", "runtime.mstart", "runtime.rt0_go"},
		goSwitches: {
			"runtime.asmcgocall", "runtime.asmcgocall_no_g", "runtime.cgocallback", "runtime.clone", "runtime.gogo",
			"runtime.gosave_systemstack_switch", "runtime.mcall", "runtime.morestack", "runtime.morestack_noctxt",
			"runtime.nanotime1", "runtime.sigreturn__sigaction", "runtime.sigtramp", "runtime.systemstack",
			"runtime.systemstack_switch", "runtime.vgetrandom1", "runtime.walltime", "time.now",
		},
	}
}

// goStacks returns where those functions are in a Go program with symbols; one without
// has no call frame information either.
func goStacks(f *elf.File) map[string][][2]uint64 {
	if f.Section(".gopclntab") == nil && f.Section(".data.rel.ro.gopclntab") == nil {
		return nil
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil
	}
	out := map[string][][2]uint64{}
	for kind, names := range goFunctions() {
		for _, s := range symbols {
			if s.Size > 0 && slices.Contains(names, strings.TrimSuffix(s.Name, ".abi0")) {
				out[kind] = append(out[kind], [2]uint64{s.Value, s.Value + s.Size})
			}
		}
	}
	return out
}
