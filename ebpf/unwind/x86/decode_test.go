package x86

import (
	"bufio"
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
	"github.com/headwater/headwater/integration/testkit/need"
)

// TestObjdump compares the lengths of instructions with objdump's, for the whole text of some
// files.
func TestObjdump(t *testing.T) {
	for _, path := range ehtest.Files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) { compareLengths(t, path) })
	}
}

func compareLengths(t *testing.T, path string) {
	total, wrong := 0, 0
	disassemble(t, path, func(in shown) {
		total++
		if got, ok := Decode(in.code); !ok || got.Length != in.length {
			if wrong++; wrong <= 20 {
				t.Errorf("%x: % x: %d bytes, objdump says %d: %s", in.addr, in.code[:in.length], got.Length, in.length,
					in.text)
			}
		}
	})
	t.Logf("%d instructions, %d of another length", total, wrong)
}

// shown is an instruction as objdump shows it.
type shown struct {
	addr   uint64
	code   []byte // from the instruction to the end of the text
	length int
	text   string
}

// disassemble calls use for every instruction of the text of a file, except dubious ones.
func disassemble(t *testing.T, path string, use func(shown)) {
	t.Helper()
	need.Tools(t, "objdump")
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		t.Skip("for another machine")
	}
	text := f.Section(".text")
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("objdump", "-d", "-z", "--no-show-raw-insn", "-j", ".text", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	lines := bufio.NewScanner(out)
	total := 0
	var last uint64
	var name string
	for lines.Scan() {
		at, what, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		addr, err := strconv.ParseUint(at, 16, 64)
		if !ok || err != nil || !strings.HasPrefix(what, "\t") {
			continue
		}
		if last != 0 && !dubious(name, code[last-text.Addr]) {
			total++
			use(shown{last, code[last-text.Addr:], int(addr - last), strings.TrimSpace(name)})
		}
		last, name = addr, what
	}
	if err := lines.Err(); err != nil || total < 1000 {
		t.Fatalf("objdump shows %d instructions: %v", total, err)
	}
}

// dubious reports whether objdump's output for data in code is unreliable: bytes, prefixes that it
// does not decode, a wait that it combines with the following instruction, and jumps that it
// considers shorter than Intel's.
func dubious(text string, first byte) bool {
	fields := strings.Fields(text)
	if len(fields) == 0 || first == 0x9b || strings.HasPrefix(fields[0], ".byte") || strings.Contains(text, "(bad)") {
		return true
	}
	last := fields[len(fields)-1]
	return strings.HasPrefix(last, "rex") || last == "data16" || last == "lock" || strings.HasPrefix(last, "rep") ||
		fields[0] == "jmpw" || fields[0] == "callw"
}

// FuzzDecode checks that an instruction is as long as the bytes read for it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1})
	f.Add([]byte{0x66, 0x66, 0x66, 0x48, 0x89, 0x84, 0x24, 0, 0, 1, 0})
	f.Add([]byte{0x8f, 0xe8, 0x78, 0xc2, 0xec, 0x0e})
	f.Fuzz(func(t *testing.T, code []byte) {
		in, ok := Decode(code)
		if ok && (in.Length < 1 || in.Length > min(len(code), maxLength)) {
			t.Errorf("% x: %d bytes long", code, in.Length)
		}
		if !ok {
			return
		}
		if _, ok := Decode(code[:in.Length-1]); ok {
			t.Errorf("% x: an instruction without its last byte", code[:in.Length])
		}
	})
}
