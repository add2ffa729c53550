package hotspot

import (
	"bufio"
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestLengths compares the lengths of instructions with objdump's. The libraries have
// code for every kind of processor: AVX, FMA, AVX-512.
func TestLengths(t *testing.T) {
	for _, library := range []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib/x86_64-linux-gnu/libc.so.6"} {
		t.Run(library, func(t *testing.T) { compareLengths(t, library) })
	}
}

func compareLengths(t *testing.T, library string) {
	text, err := elf.Open(library)
	if err != nil {
		t.Skip(err) // another distribution, or another machine
	}
	defer text.Close()
	section := text.Section(".text")
	code, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("objdump"); err != nil && os.Getenv("REQUIRE_KERNEL") != "1" {
		t.Skip("objdump is not installed")
	}
	out, err := exec.Command("objdump", "-d", "-j", ".text", "--wide", "--no-show-raw-insn", library).Output()
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		at   uint64
		text string
	}
	var lines []line
	for scanner := bufio.NewScanner(bytes.NewReader(out)); scanner.Scan(); {
		address, text, ok := strings.Cut(scanner.Text(), ":\t")
		at, err := strconv.ParseUint(strings.TrimSpace(address), 16, 64)
		if ok && err == nil {
			lines = append(lines, line{at, text})
		}
	}
	if len(lines) < 10_000 {
		t.Fatalf("objdump shows %d instructions", len(lines))
	}
	wrong := 0
	for i, l := range lines[:len(lines)-1] {
		if code[l.at-section.Addr] == 0x9b {
			continue // fwait, which objdump joins with what follows
		}
		in, ok := decode(code[l.at-section.Addr:])
		if want := int(lines[i+1].at - l.at); (!ok || in.length != want) && !strings.Contains(l.text, "(bad)") {
			if wrong++; wrong < 10 {
				t.Errorf("%x: %s: length %d, %v; want %d: % x", l.at, l.text, in.length, ok, want, code[l.at-section.Addr:][:want])
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1})
	f.Add([]byte{0x66, 0x66, 0x66, 0x48, 0x89, 0x84, 0x24, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, code []byte) {
		code = code[:min(len(code), 4096)]
		if in, ok := decode(code); ok && (in.length <= 0 || in.length > len(code)) {
			t.Errorf("% x: %d bytes long", code, in.length)
		}
		for _, kind := range []kind{compiled, stub, adapter, interpreterCode, interpreterEntry} {
			last := -1
			for _, r := range (piece{kind: kind, code: code, size: 64, complete: len(code) / 4}).rules() {
				if r.at <= last || r.at >= len(code) {
					t.Fatalf("rule at %d behind one at %d", r.at, last)
				}
				last = r.at
			}
		}
	})
}
