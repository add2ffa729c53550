package elffile

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The program prints where a function of its own and, with a library, one of
// the library's is, then its mappings.
const biasProgram = `
#include <stdio.h>
int here(void) { return 1; }
#ifdef LIB
int there(void);
#endif
int main(void) {
	printf("here %lx\n", (unsigned long)(void *)here);
#ifdef LIB
	printf("there %lx\n", (unsigned long)(void *)there);
#endif
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	while (fgets(line, sizeof line, f)) fputs(line, stdout);
	return 0;
}`

func TestBiasOfRunningProgram(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags []string
		zero  bool // must have no bias
	}{
		{"pie", []string{"-fPIE", "-pie"}, false},
		{"no-pie", []string{"-fno-pie", "-no-pie"}, true},
		{"static", []string{"-fno-pie", "-static"}, true},
		{"static-pie", []string{"-fPIE", "-static-pie"}, false},
		{"text at offset 0", []string{"-fPIE", "-pie", "-Wl,-z,noseparate-code"}, false},
		{"no-pie text at offset 0", []string{"-fno-pie", "-no-pie", "-Wl,-z,noseparate-code"}, true},
		{"2 MiB pages", []string{"-fPIE", "-pie", "-Wl,-z,max-page-size=0x200000"}, false},
		{"high text segment", []string{"-fno-pie", "-no-pie", "-Wl,-Ttext-segment=0x7000000"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := compile(t, biasProgram, tt.flags...)
			bias := checkBias(t, path, run(t, path), "here")
			if tt.zero && bias != 0 {
				t.Errorf("bias %#x of an executable at a fixed address, want 0", bias)
			}
			if !tt.zero && bias == 0 {
				t.Error("no bias of a position independent executable")
			}
		})
	}
}

func TestBiasOfSharedLibrary(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags []string
	}{
		{"plain", nil},
		{"text at offset 0", []string{"-Wl,-z,noseparate-code"}},
		{"prelinked", []string{"-Wl,-Ttext-segment=0x3000000000"}}, // as prelink(8) sets addresses
	} {
		t.Run(tt.name, func(t *testing.T) {
			lib := compile(t, "int there(void) { return 2; }", append(tt.flags, "-shared", "-fPIC")...)
			path := compile(t, biasProgram, "-DLIB", lib, "-Wl,-rpath,"+filepath.Dir(lib))
			checkBias(t, lib, run(t, path), "there")
		})
	}
}

// checkBias compares the address that the program printed for a function with nm's.
func checkBias(t *testing.T, path, output, function string) (bias uint64) {
	t.Helper()
	f := open(t, path)
	var addr uint64
	found := false
	for line := range strings.Lines(output) {
		if hex, ok := strings.CutPrefix(line, function+" "); ok {
			addr = parseHex(t, strings.TrimSpace(hex))
		}
		var start, end, offset uint64
		var perms string
		n, _ := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &perms, &offset)
		if n != 4 || !strings.Contains(line, path) || addr < start || addr >= end {
			continue
		}
		found = true
		var ok bool
		if bias, ok = f.Bias(start, end, offset); !ok {
			t.Fatalf("no bias for mapping %s", line)
		}
		// Use a part of the mapping, as mprotect would split it.
		if page := uint64(os.Getpagesize()); end-start > page {
			part, ok := f.Bias(start+page, end, offset+page)
			if !ok || part != bias {
				t.Errorf("bias of the mapping's second page is %#x, %v; want %#x", part, ok, bias)
			}
		}
	}
	if !found {
		t.Fatalf("%s is in no mapping of %s:\n%s", function, path, output)
	}
	if got, want := addr-bias, nmAddress(t, path, function); got != want {
		t.Errorf("%s at %#x, bias %#x: vaddr %#x, nm says %#x", function, addr, bias, got, want)
	}
	return bias
}

func nmAddress(t *testing.T, path, function string) uint64 {
	t.Helper()
	for line := range strings.Lines(run(t, "nm", path)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == function {
			return parseHex(t, f[0])
		}
	}
	t.Fatalf("nm %s: no %s", path, function)
	return 0
}

func parseHex(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// lld starts segments in the middle of a page, and maps that page with both.
func TestBiasWhereSegmentsShareAPage(t *testing.T) {
	load := func(flags elf.ProgFlag, off, vaddr, size uint64) *elf.Prog {
		return &elf.Prog{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Flags: flags, Off: off, Vaddr: vaddr,
			Filesz: size, Memsz: size}}
	}
	f := &File{elf: &elf.File{Progs: []*elf.Prog{
		load(elf.PF_R, 0, 0x200000, 0x1800),
		load(elf.PF_R|elf.PF_X, 0x1800, 0x202800, 0x3000),
		load(elf.PF_R|elf.PF_W, 0x4800, 0x206800, 0x100),
	}}}
	f.findSegments()
	for _, tt := range []struct{ start, end, offset, want uint64 }{
		{0x202000, 0x206000, 0x1000, 0},           // text
		{0x10202000, 0x10206000, 0x1000, 1 << 28}, // the same, moved
		{0x203000, 0x206000, 0x2000, 0},
		{0x206000, 0x207000, 0x4000, 0x1000}, // ambiguous: assumed to be an executable mapping
	} {
		bias, ok := f.Bias(tt.start, tt.end, tt.offset)
		if !ok || bias != tt.want {
			t.Errorf("Bias(%#x, %#x, %#x) = %#x, %v; want %#x", tt.start, tt.end, tt.offset, bias, ok, tt.want)
		}
	}
	if _, ok := f.Bias(0x300000, 0x301000, 0x9000); ok {
		t.Error("bias for an offset that no segment holds")
	}
	if _, ok := f.Bias(5, 5, 0); ok {
		t.Error("bias for an empty mapping")
	}
}
