package unwindtable

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind"
)

// goProgram builds a small program for an architecture, stripped or not.
func goProgram(t *testing.T, arch, ldflags string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "a.go"), filepath.Join(dir, "a")
	if err := os.WriteFile(source, []byte(goSource), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", slices.Concat([]string{"build", "-ldflags=" + ldflags, "-o", path}, flags,
		[]string{source})...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch, "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// instruction is a line of go tool objdump.
type instruction struct {
	function string
	pc, next uint64
	text     string
}

// disassemble calls yield for all instructions of a Go program.
func disassemble(t *testing.T, path string, yield func(instruction)) {
	t.Helper()
	out, err := exec.Command("go", "tool", "objdump", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^\s+\S+:-?\d+\s+0x([0-9a-f]+)\s+([0-9a-f]+)\s+(.*?)\s*$`)
	function := ""
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "TEXT "); ok {
			function, _, _ = strings.Cut(name, "(SB)")
			continue
		}
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		pc, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		yield(instruction{function, pc, pc + uint64(len(m[2])/2), m[3]})
	}
}

// inScheduler returns a rule without the part that is added only in the scheduler.
func inScheduler(w unwind.WideRule) string { return strings.TrimSuffix(w.String(), " detached") }

// checkAround compares the rules before and after an instruction.
func checkAround(t *testing.T, p *pages, in instruction, before, after string) {
	t.Helper()
	if got := inScheduler(p.rule(in.pc)); got != before {
		t.Errorf("%s, %#x, before %s: %s, want %s", in.function, in.pc, in.text, got, before)
	}
	if got := inScheduler(p.rule(in.next)); got != after {
		t.Errorf("%s, %#x, after %s: %s, want %s", in.function, in.pc, in.text, got, after)
	}
}

// TestGoPrologues checks the rules before and after every instruction that saves or restores the
// frame pointer in a stripped program. go tool objdump finds these instructions in the same program
// with symbols.
func TestGoPrologues(t *testing.T) {
	p := &pages{t, openTable(t, goProgram(t, "amd64", "-s -w")), make(map[uint64]*unwind.Page)}
	saved, restored := 0, 0
	disassemble(t, goProgram(t, "amd64", ""), func(in instruction) {
		rule := p.rule(in.pc)
		switch {
		case rule.CFA == unwind.CFAFrame || rule.RA() == unwind.RAUndefined || in.function == "runtime.asyncPreempt" ||
			in.function == "runtime.debugCallV2":
		case strings.HasPrefix(in.function, "expandAVX512"): // objdump does not know their instructions
		case in.text == "PUSHQ BP":
			if p.rule(in.next).FP() == unwind.FPUndefined { // assembly that makes no frame
				return
			}
			checkAround(t, p, in, "cfa=sp+8", "cfa=sp+16 fp=*(cfa-16)")
			saved++
		case in.text == "POPQ BP":
			checkAround(t, p, in, "cfa=sp+16 fp=*(cfa-16)", "cfa=sp+8")
			restored++
		}
	})
	t.Logf("%d times saved, %d restored", saved, restored)
	if saved < 1000 || restored < 1000 {
		t.Error("too few")
	}
}

// TestGoProloguesAArch64 does the same for arm64.
func TestGoProloguesAArch64(t *testing.T) {
	p := &pages{t, openTable(t, goProgram(t, "arm64", "-s -w")), make(map[uint64]*unwind.Page)}
	push := regexp.MustCompile(`^MOVD\.W R30, -(\d+)\(RSP\)$`)
	pop := regexp.MustCompile(`^MOVD\.P (\d+)\(RSP\), R30$`)
	frame := func(size int, fp string) string {
		return "cfa=sp+" + strconv.Itoa(size) + fp
	}
	saved, restored := 0, 0
	disassemble(t, goProgram(t, "arm64", ""), func(in instruction) {
		if rule := p.rule(in.pc); rule.CFA == unwind.CFAFrame || rule.RA() == unwind.RAUndefined {
			return
		}
		if m := push.FindStringSubmatch(in.text); m != nil {
			size, _ := strconv.Atoi(m[1])
			if rule := p.rule(in.next + 4); rule.CFA == unwind.CFAFrame || rule.RA() == unwind.RAUndefined {
				return
			}
			checkAround(t, p, in, "cfa=sp+0 ra=lr", frame(size, ""))
			want := frame(size, " fp=*(cfa-"+strconv.Itoa(size+8)+")")
			if got := inScheduler(p.rule(in.next + 4)); got != want {
				t.Errorf("%s, %#x, one after %s: %s, want %s", in.function, in.pc, in.text, got, want)
			}
			saved++
		}
		if m := pop.FindStringSubmatch(in.text); m != nil {
			size, _ := strconv.Atoi(m[1])
			checkAround(t, p, in, frame(size, " fp=*(cfa-"+strconv.Itoa(size+8)+")"), "cfa=sp+0 ra=lr")
			restored++
		}
	})
	t.Logf("%d times saved, %d restored", saved, restored)
	if saved < 1000 || restored < 1000 {
		t.Error("too few")
	}
}

// TestGoStacksEnd checks the functions where stacks end or change, during their last call.
func TestGoStacksEnd(t *testing.T) {
	const outermost, detached, goroutine = "cfa=sp+0 ra=undefined", " detached", "goroutine=*(*(g+48)+"
	for arch, want := range map[string]map[string]string{
		"amd64": {
			"runtime.mstart.abi0": outermost, "runtime.goexit.abi0": outermost, "runtime.rt0_go.abi0": outermost,
			"runtime.mcall": outermost, "newstack": goroutine, "runtime.schedule": detached,
			"runtime.asmcgocall.abi0": "cfa=fp+16 fp=*(fp) ra=*(fp+8)",
			"runtime.nanotime1.abi0":  "cfa=fp+16 fp=*(fp) ra=*(fp+8)", "time.now": "cfa=fp+16 fp=*(fp) ra=*(fp+8)",
		},
		"arm64": {"runtime.mcall": outermost, "newstack": goroutine, "runtime.schedule": detached},
	} {
		p := &pages{t, openTable(t, goProgram(t, arch, "-s -w")), make(map[uint64]*unwind.Page)}
		calls := map[string]string{}
		disassemble(t, goProgram(t, arch, ""), func(in instruction) {
			if strings.HasPrefix(in.text, "CALL runtime.newstack") {
				calls["newstack"] = p.rule(in.next - 1).String()
			} else if strings.HasPrefix(in.text, "CALL") && !strings.Contains(in.text, "morestack") {
				calls[in.function] = p.rule(in.next - 1).String()
			}
		})
		for function, want := range want {
			got, ok := calls[function], false
			switch want {
			case detached:
				ok = strings.HasSuffix(got, want)
			case goroutine:
				ok = strings.HasPrefix(got, want) && strings.HasSuffix(got, " ra=kept")
			default:
				ok = got == want
			}
			if !ok {
				t.Errorf("%s, in %s, while it calls: %s, want %s", arch, function, got, want)
			}
		}
	}
}

// TestGoClock has functions that read the clock as those of Go 1.12 to 1.15 do: on the thread's
// stack, while the frame pointer has the function's own stack pointer. Those of Go 1.12 and 1.13 have
// no frame. The runtime of this release is built with rbp in place of r12, which it uses.
func TestGoClock(t *testing.T) {
	program := goProgram(t, "amd64", "", "-overlay="+olderClock(t))
	p := &pages{t, openTable(t, program), make(map[uint64]*unwind.Page)}
	const frame, frameCopied, none, noneCopied = "cfa=sp+32 fp=*(cfa-16)", "cfa=fp+32 fp=*(cfa-16)", "cfa=sp+8",
		"cfa=fp+8 fp=undefined"
	want := map[string]map[string]string{ // rules before instructions
		"runtime.nanotime1": {
			"MOVQ 0x30(R14), BX": frameCopied, "ANDQ $-0x10, SP": frameCopied, "CALL AX": frameCopied,
			"MOVQ BP, SP": frameCopied, "MOVQ 0x8(SP), CX": frame, "RET": none, "SYSCALL": frameCopied,
		},
		"runtime.walltime1": {
			"MOVQ SP, BP": none, "MOVQ 0x30(R14), BX": noneCopied, "ANDQ $-0x10, SP": noneCopied, "CALL AX": noneCopied,
			"MOVQ BP, SP": noneCopied, "MOVQ 0x8(SP), CX": noneCopied, "RET": noneCopied, "SYSCALL": noneCopied,
		},
	}
	seen := map[string]int{}
	disassemble(t, program, func(in instruction) {
		function := strings.TrimSuffix(in.function, ".abi0")
		if want := want[function][in.text]; want != "" {
			seen[function]++
			if got := p.rule(in.pc).String(); got != want {
				t.Errorf("%s, %#x, before %s: %s, want %s", in.function, in.pc, in.text, got, want)
			}
		}
	})
	for function, want := range want {
		if seen[function] != len(want) {
			t.Errorf("%s: %d instructions, want %d", function, seen[function], len(want))
		}
	}
}

// olderClock returns the overlay of TestGoClock.
func olderClock(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, original := t.TempDir(), filepath.Join(strings.TrimSpace(string(root)), "src", "runtime", "sys_linux_amd64.s")
	code, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const declared = "TEXT runtime·nanotime1(SB),NOSPLIT,$16-8"
	before, rest, ok := strings.Cut(string(code), declared)
	clock, after, ok2 := strings.Cut(rest, "TEXT ")
	if !ok || !ok2 || strings.Count(clock, "R12") != 3 || !strings.Contains(clock, "\tSYSCALL\n") {
		t.Fatalf("runtime.nanotime1 has another form:\n%s", clock)
	}
	clock = strings.ReplaceAll(clock, "R12", "BP")
	frameless := "TEXT runtime·walltime1(SB),NOSPLIT|NOFRAME,$0-8" + clock
	clock = declared + strings.Replace(clock, "\tSYSCALL\n", "\tCALL runtime·walltime1(SB)\n\tSYSCALL\n", 1)
	replaced, overlay := filepath.Join(dir, "clock.s"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replaced}})
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string]string{
		replaced: before + clock + frameless + "TEXT " + after, overlay: string(text),
	} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// TestGoSaves has the forms of saving the frame pointer of all releases.
func TestGoSaves(t *testing.T) {
	type result struct {
		after, set uint64
		ok         bool
	}
	for name, c := range map[string]struct {
		code  []byte // from one byte before addr
		delta int64
		want  result
	}{
		"Go 1.21": {[]byte{0x55, 0x48, 0x89, 0xe5, 0x90}, 8, result{0, 3, true}},
		"Go 1.7, no locals": {[]byte{0x08, 0x48, 0x89, 0x2c, 0x24, 0x48, 0x8d, 0x2c, 0x24}, 8,
			result{4, 8, true}},
		"Go 1.7": {[]byte{0x20, 0x48, 0x89, 0x6c, 0x24, 0x18, 0x48, 0x8d, 0x6c, 0x24, 0x18},
			0x20, result{5, 10, true}},
		"Go 1.7, large frame": {[]byte{0, 0x48, 0x89, 0xac, 0x24, 0xf8, 0x01, 0, 0, 0x48, 0x8d, 0xac, 0x24,
			0xf8, 0x01, 0, 0}, 0x200, result{8, 16, true}},
		"another slot":                   {[]byte{0x20, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x90}, 0x20, result{ok: false}},
		"push without mov":               {[]byte{0x55, 0x48, 0x89, 0xfb, 0x90}, 8, result{ok: false}},
		"assembly that pushes something": {[]byte{0x53, 0x48, 0x89, 0xe5, 0x90}, 8, result{ok: false}},
	} {
		const addr = 0x401001
		data := append(c.code, make([]byte, 32)...)
		text := newCode(Sections{Machine: elf.EM_X86_64,
			Text: []*Section{{addr - 1, uint64(len(data)), bytes.NewReader(data)}}})
		after, set, ok := goX86{}.saves(text, addr, c.delta)
		if got := (result{after, set, ok}); ok != c.want.ok || ok && got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
