package verify

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/headwater/headwater/ebpf/elffile"
)

// goSwitches are the functions of Go's runtime that put another stack in the
// place of their own, some to call the vdso, or are the root of one
// (runtime/asm_*.s, sys_linux_*.s, time_linux_*.s: those that write SP or are
// marked TOPFRAME). Go's .debug_frame describes them as if they did not, so that it
// leads astray there: as good as none.
func goSwitches() []string {
	return []string{
		"runtime.asmcgocall", "runtime.asmcgocall_no_g", "runtime.cgocallback", "runtime.clone", "runtime.goexit", "runtime.gogo",
		"runtime.gosave_systemstack_switch", "runtime.mcall", "runtime.morestack", "runtime.morestack_noctxt", "runtime.mstart",
		"runtime.nanotime1", "runtime.rt0_go", "runtime.sigreturn__sigaction", "runtime.sigtramp", "runtime.systemstack",
		"runtime.systemstack_switch", "runtime.vgetrandom1", "runtime.walltime", "time.now",
	}
}

// ranges are pieces of text, sorted and apart.
type ranges [][2]uint64

func (r ranges) contain(vaddr uint64) bool {
	i, found := slices.BinarySearchFunc(r, vaddr, func(piece [2]uint64, vaddr uint64) int { return cmp.Compare(piece[0], vaddr) })
	if !found {
		i--
	}
	return i >= 0 && vaddr < r[i][1]
}

// goUnchecked returns where the call frame information of a Go program cannot be
// trusted. Programs without symbols have none.
func goUnchecked(f *elffile.File) (ranges, error) {
	if !f.IsGo() {
		return nil, nil
	}
	symbols, err := f.Symbols()
	if errors.Is(err, elffile.ErrNoSection) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := goSwitches()
	var found ranges
	for _, s := range symbols {
		if s.Size > 0 && slices.Contains(names, strings.TrimSuffix(s.Name, ".abi0")) {
			found = append(found, [2]uint64{s.Value, s.Value + s.Size})
		}
	}
	slices.SortFunc(found, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	return slices.Compact(found), nil
}
