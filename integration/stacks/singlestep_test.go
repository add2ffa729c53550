package stacks

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/object/elffile"
	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/unwindtable"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// TestEveryInstruction runs programs instruction by instruction and notes each call. After
// each instruction, the rows and the Go stepper must find exactly the return addresses of the
// active calls: in prologues and epilogues, the dynamic linker, lazy binding, hand-written
// assembly, and with an exception in flight. (TestParity of ebpf/unwind makes the same steps
// with the C code of the BPF program.)
func TestEveryInstruction(t *testing.T) {
	t.Parallel()
	need.Tools(t, "readelf")
	dir := t.TempDir()
	t.Run("C", func(t *testing.T) {
		t.Parallel()
		checkEveryInstruction(t, ruleSource(t, dir, "hwstep", "rules/step.c", "-Wl,-z,lazy"), false)
	})
	t.Run("C++", func(t *testing.T) {
		testkit.Nightly(t, "TestRules has a program that throws")
		t.Parallel()
		checkEveryInstruction(t, ruleSource(t, dir, "hwstepcxx", "rules/throw.cc"), true)
	})
}

// wrongCFI are the places where the walk goes wrong because the CFI is wrong.
var wrongCFI = regexp.MustCompile(`` +
	// longjmp is about to leave for another frame, whose stack pointer and return address it has in registers.
	`rule unsupported: sp_rule$|` +
	// The exception's frame is being replaced by its handler's frame, in place.
	`\(_Unwind_RaiseException\)`)

// call is an active call: where the return address is on the stack.
type call struct{ slot, returns uint64 }

// checkEveryInstruction looks at a program from its first instruction, or from
// where it traps.
func checkEveryInstruction(t testing.TB, path string, trap bool) {
	// The tracer is a thread. With its priority it ends, for the goroutine ends with it locked.
	runtime.LockOSThread()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20); err != nil {
		t.Errorf("give the tracer priority: %v", err)
	}
	task := newTraced(t, path)
	if trap {
		task.runToTrap()
	}
	var calls []call
	wrong, without, excused := map[string]int{}, 0, 0
	steps, before := 0, syscall.PtraceRegs{}
	for ; ; steps++ {
		regs := task.registers()
		// A call has pushed the address of the instruction after it.
		if top, ok := task.ReadU64(regs.Rsp); ok && regs.Rsp == before.Rsp-8 && top-before.Rip >= 2 && top-before.Rip <= 8 {
			calls = append(calls, call{regs.Rsp, top})
		}
		for len(calls) > 0 && calls[len(calls)-1].slot < regs.Rsp {
			calls = calls[:len(calls)-1]
		}
		switch problem, uncovered := task.check(regs, calls); {
		case uncovered:
			without++
		case wrongCFI.MatchString(problem):
			excused++
		case problem != "":
			wrong[problem]++
		}
		before = regs
		if !task.step() {
			break
		}
	}
	t.Logf("%d instructions; in %d there is a frame without CFI, as readelf says, and in %d its CFI is wrong",
		steps, without, excused)
	if steps < 10000 || without > 10 || excused > steps/500 {
		t.Error("that is not what the program does")
	}
	for i, problem := range slices.Sorted(maps.Keys(wrong)) {
		if i == 20 {
			t.Errorf("and %d more places", len(wrong)-i)
			break
		}
		t.Errorf("%d times: %s", wrong[problem], problem)
	}
}

// traced is a program that stops after each instruction.
type traced struct {
	t      testing.TB
	pid    int
	memory *os.File
	window []byte // of the stack, from the address at
	at     uint64

	root     []uint64 // return addresses below where it trapped
	mappings []procfs.Mapping
	files    map[string]*tracedFile
}

// tracedFile is a file that the program has mapped.
type tracedFile struct {
	path  string
	elf   *elffile.File
	table *unwindtable.Table
	pages map[uint64]*unwind.Page
	fdes  [][2]uint64  // by readelf
	names []rig.Symbol // by nm
}

// newTraced starts a program. It has not executed an instruction yet.
func newTraced(t testing.TB, path string) *traced {
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatalf("wait for the program to start: %v, status %#x", err, status)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return &traced{t: t, pid: pid, memory: memory, files: map[string]*tracedFile{}}
}

// runToTrap lets the program run until it traps, in main.
func (p *traced) runToTrap() {
	if err := syscall.PtraceCont(p.pid, 0); err != nil {
		p.t.Fatal(err)
	}
	if !p.stopped() {
		p.t.Fatal("the program does not trap")
	}
	found, outcome := p.walk(p.registers())
	if names := p.names(found); !outcome.Complete() || len(names) != 4 || names[0] != "main" || names[3] != "_start" {
		p.t.Fatalf("%s: main is called by %v", outcome, names)
	}
	p.root = found[1:]
}

// names returns the functions of a walk.
func (p *traced) names(found []uint64) (names []string) {
	for i, pc := range found {
		if i > 0 {
			pc--
		}
		f, vaddr := p.find(pc)
		if f == nil {
			return nil
		}
		names = append(names, f.name(vaddr))
	}
	return names
}

// step executes one instruction; false when the program has ended.
func (p *traced) step() bool {
	if err := syscall.PtraceSingleStep(p.pid); err != nil {
		p.t.Fatal(err)
	}
	return p.stopped()
}

// stopped waits for the program to stop; false if it has ended instead.
func (p *traced) stopped() bool {
	p.window = p.window[:0]
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != nil {
		p.t.Fatal(err)
	}
	if status.Exited() {
		if code := status.ExitStatus(); code != 0 {
			p.t.Errorf("exit code %d", code)
		}
		return false
	}
	if !status.Stopped() || status.StopSignal() != syscall.SIGTRAP {
		p.t.Fatalf("the program stops with status %#x", status)
	}
	return true
}

func (p *traced) registers() (regs syscall.PtraceRegs) {
	if err := syscall.PtraceGetRegs(p.pid, &regs); err != nil {
		p.t.Fatal(err)
	}
	return regs
}

// ReadU64 reads a word of the program's memory.
func (p *traced) ReadU64(addr uint64) (uint64, bool) {
	if addr < p.at || addr+8 > p.at+uint64(len(p.window)) {
		p.window = p.window[:cap(p.window)]
		if len(p.window) == 0 {
			p.window = make([]byte, 4096)
		}
		n, err := p.memory.ReadAt(p.window, int64(addr))
		if err != nil && n < 8 {
			p.window = p.window[:0]
			return 0, false
		}
		p.at, p.window = addr, p.window[:n]
	}
	return binary.LittleEndian.Uint64(p.window[addr-p.at:]), true
}

// EndsAt takes every zero for the end of the stack. The test compares where the walk leads.
func (p *traced) EndsAt(uint64) bool { return true }

func (p *traced) Called(addr uint64) bool { return unwind.ReturnsTo(elf.EM_X86_64, addr, p) }

// find returns the file at an address of the program, and the address in it.
func (p *traced) find(addr uint64) (*tracedFile, uint64) {
	for range 2 {
		i := slices.IndexFunc(p.mappings, func(m procfs.Mapping) bool { return m.Start <= addr && addr < m.End })
		if i >= 0 {
			return p.file(p.mappings[i], addr)
		}
		var err error
		if p.mappings, err = procfs.Default.ExecMappings(uint32(p.pid)); err != nil {
			p.t.Fatal(err)
		}
	}
	return nil, 0
}

func (p *traced) file(m procfs.Mapping, addr uint64) (*tracedFile, uint64) {
	f := p.files[m.Path]
	if f == nil {
		f = &tracedFile{path: m.Path, pages: map[uint64]*unwind.Page{}}
		p.files[m.Path] = f
		image := m.Path
		if !strings.HasPrefix(image, "/") { // the vdso
			text := make([]byte, m.End-m.Start)
			if _, err := p.memory.ReadAt(text, int64(m.Start)); err != nil {
				p.t.Fatal(err)
			}
			image = fmt.Sprintf("%s/%d.so", p.t.TempDir(), m.Start)
			rig.WriteFile(p.t, image, string(text))
		}
		var err1, err2 error
		f.elf, err1 = elffile.Open(image)
		if err1 == nil {
			f.table, err2 = unwindtable.New(f.elf)
		}
		if err := errors.Join(err1, err2); err != nil {
			p.t.Fatalf("%s: %v", m.Path, err)
		}
		f.fdes, f.names = fdeRanges(p.t, image), rig.SymbolTable(p.t, image, f.elf.BuildID())
	}
	if strings.HasPrefix(m.Path, "/") {
		bias, ok := f.elf.Bias(m.Start, m.End, m.Offset)
		if !ok {
			p.t.Fatalf("%s at %#x: no load bias", m.Path, m.Start)
		}
		return f, addr - bias
	}
	return f, addr - m.Start
}

// fdeRanges returns what the FDEs of a file cover, sorted, as readelf prints it.
func fdeRanges(t testing.TB, path string) [][2]uint64 {
	// It also fails where a separate debug file is missing.
	out, err := exec.Command("readelf", "--wide", "--debug-dump=frames-interp", path).Output()
	if len(out) == 0 {
		t.Fatalf("readelf %s: %v", path, err)
	}
	var ranges [][2]uint64
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		_, at, ok := strings.Cut(lines.Text(), " pc=")
		from, to, ok2 := strings.Cut(at, "..")
		if ok && ok2 {
			ranges = append(ranges, [2]uint64{vaddrOf(from), vaddrOf(to)})
		}
	}
	slices.SortFunc(ranges, func(a, b [2]uint64) int { return int(int64(a[0] - b[0])) })
	return ranges
}

// covered reports whether an FDE covers an address in the file.
func (f *tracedFile) covered(vaddr uint64) bool {
	return slices.ContainsFunc(f.fdes, func(r [2]uint64) bool { return r[0] <= vaddr && vaddr < r[1] })
}

// Rule implements unwind.Space.
func (p *traced) Rule(addr uint64) (unwind.WideRule, unwind.Outcome) {
	f, vaddr := p.find(addr)
	if f == nil {
		return unwind.WideRule{}, unwind.NoMapping
	}
	n := vaddr >> unwind.MinPageShift
	if f.pages[n] == nil {
		page, err := f.table.Page(n, unwind.MinPageShift)
		if err != nil {
			p.t.Fatalf("%s: %v", f.path, err)
		}
		f.pages[n] = page
	}
	return f.pages[n].Rule(vaddr), unwind.Unset
}

// walk returns the frames that the rows and the stepper find.
func (p *traced) walk(regs syscall.PtraceRegs) (found []uint64, outcome unwind.Outcome) {
	r := unwind.Regs{PC: regs.Rip, SP: regs.Rsp, FP: regs.Rbp, Exact: true, Full: true, RBX: true, General: [16]uint64{
		regs.Rax, regs.Rdx, regs.Rcx, regs.Rbx, regs.Rsi, regs.Rdi, regs.Rbp, regs.Rsp,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15,
	}}
	outcome = unwind.Walk(elf.EM_X86_64, p, &r, p, 200, func(r *unwind.Regs) { found = append(found, r.PC) })
	return found, outcome
}

// check compares the walk from regs with the calls. It says where they part, and
// whether no FDE covers the frame there.
func (p *traced) check(regs syscall.PtraceRegs, calls []call) (problem string, uncovered bool) {
	found, outcome := p.walk(regs)
	due := []uint64{regs.Rip}
	for _, c := range slices.Backward(calls) {
		due = append(due, c.returns)
	}
	due = append(due, p.root...)
	if slices.Equal(found, due) && outcome.Complete() {
		return "", false
	}
	last := 0 // frame on which both agree
	for last+1 < min(len(found), len(due)) && found[last+1] == due[last+1] {
		last++
	}
	lookup := due[last]
	if last > 0 {
		lookup--
	}
	f, vaddr := p.find(lookup)
	if f == nil {
		return fmt.Sprintf("%s: %#x is in no file", outcome, lookup), false
	}
	rule, _ := p.Rule(lookup)
	return fmt.Sprintf("%s: the caller of %s+%#x (%s), frame %d of %d, rule %v",
			outcome, filepath.Base(f.path), vaddr, f.name(vaddr), last, len(due), rule),
		!f.covered(vaddr)
}

// name returns the function at an address in the file.
func (f *tracedFile) name(vaddr uint64) string {
	i := slices.IndexFunc(f.names, func(s rig.Symbol) bool { return s.Start <= vaddr && vaddr < s.End })
	if i < 0 {
		return "?"
	}
	return f.names[i].Name
}
