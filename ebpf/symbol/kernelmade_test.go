package symbol

import "testing"

func TestKernelSymbolsMadeLater(t *testing.T) {
	s := kernelOf(t, kallsyms)
	check := func(addr uint64, want string) {
		t.Helper()
		if got := s.Kernel(addr, false); got.Function != want {
			t.Errorf("%#x is %+v, want %s", addr, got, want)
		}
	}
	made := func(name string, start uint64, size uint32, removed bool) {
		s.KernelSymbol(KernelSymbol{Name: name, File: "[bpf]", Start: start, Size: size, Removed: removed})
	}
	const at = 0xffffffffc0800000
	check(at, "0xffffffffc0800000")
	made("bpf_prog_1", at, 0x40, false)
	made("bpf_prog_2", at+0x40, 0x40, false)
	made("none", at+0x80, 0, false)
	check(at+0x3f, "bpf_prog_1")
	check(at+0x40, "bpf_prog_2")
	check(at+0x80, "0xffffffffc0800080")
	made("bpf_prog_1", at, 0x40, true)
	check(at, "bpf_prog_1")
	made("bpf_prog_3", at+0x10, 0x60, false) // replaces both
	check(at+0x7f, "0xffffffffc080007f")
	check(at+0x6f, "bpf_prog_3")
	check(at, "0xffffffffc0800000")
	check(0xffffffff81000100, "first")
	if got := s.Kernel(at+0x70, true); got != (Frame{Function: "bpf_prog_3", File: "[bpf]", Kind: Kernel}) {
		t.Errorf("return address: %+v", got)
	}
	for i := range uint64(maxMade + 100) {
		made("many", i*0x10, 0x10, true)
		made("many", i*0x10, 0x10, false)
	}
	if n := len(s.kernel.made.list); n > maxMade {
		t.Errorf("%d symbols", n)
	}
}
