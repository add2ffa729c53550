package reference

import (
	"debug/elf"
	"slices"
	"strings"
)

// Kinds of functions in Go's runtime (runtime/asm_*.s, sys_linux_*.s, time_linux_*.s).
const (
	goRoots    = "roots"    // marked TOPFRAME: they have no caller
	goSwitches = "switches" // they write SP: their caller is, or may be, on another stack
)

// goFunctions lists the functions that Go's .debug_frame describes wrongly: as ordinary functions with a caller on the
// same stack, since it cannot express a root or a change of stacks. After a change of stacks the caller is on a stack
// that perf does not copy, so no rule would help.
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

// goStacks returns the address ranges of goFunctions in a Go program with symbols. A Go program without symbols has no
// call frame information either.
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
