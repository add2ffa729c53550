package process

import (
	"debug/elf"
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/ebpf/host/filework"
	"github.com/headwater/headwater/ebpf/host/procfs"
	"github.com/headwater/headwater/ebpf/unwind"
)

// TestAllowance checks the burst and the rate of an allowance.
func TestAllowance(t *testing.T) {
	var a allowance
	taken := func(now time.Time) (n int) {
		for n < 2*looksAtOnce && a.takeTime(now) {
			n++
		}
		return n
	}
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, looksAtOnce}, {time.Second / looksPerSecond / 2, 0}, {time.Second, looksPerSecond}, {time.Hour, looksAtOnce}} {
		if now = now.Add(step.after); taken(now) != step.want {
			t.Errorf("%v later: not %d", step.after, step.want)
		}
	}
}

// TestRuleByAnalysis reads code that this process has generated, changes it, and reads it again.
func TestRuleByAnalysis(t *testing.T) {
	const all = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
	memory, err := unix.Mmap(-1, 0, os.Getpagesize(), all, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	mapped := mappings{{start: start, end: start + uint64(len(memory))}}
	tracker := &Tracker{exes: &executables{work: &filework.Pool{}}, fs: procfs.Default}
	space := &View{tracker: tracker, pid: uint32(os.Getpid()), mappings: mapped}
	code := memory[16:]
	begin := start + 16
	// push %rbx; sub $32,%rsp; call *%rax; add $32,%rsp; pop %rbx; ret
	copy(code, []byte{0x53, 0x48, 0x83, 0xec, 0x20, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x20, 0x5b, 0xc3})
	const called = 7
	check := func(offset uint64, want int32) {
		t.Helper()
		rule, ok := space.RuleByAnalysis(elf.EM_X86_64, begin+offset)
		byCode := unwind.WideRule{CFA: unwind.CFASP, Rules: unwind.Rules(unwind.FPSame, unwind.RACalled), CFAOff: want}
		if ok != (want != 0) || ok && rule != byCode {
			t.Errorf("offset %d: %v, %v, want sp+%d", offset, rule, ok, want)
		}
	}
	check(0, 8)
	check(called, 48)
	check(called, 48) // remembered
	code[4], code[10] = 0x40, 0x40
	check(called, 80)
	code[12] = 0xf4 // hlt for ret
	check(0, 0)
	isCalled := func(addr uint64) bool { return space.Called(addr) }
	if !isCalled(begin+called) || isCalled(begin+called+1) || isCalled(begin) {
		t.Error("the call is not found, or something else is")
	}
	unreadable := &Executable{Path: "/data", Err: errors.New("bad magic number")}
	unreadable.image.Store(newImage(unreadable, nil))
	mapped[0].exe = unreadable // some programs run code of files that are not ELF files
	if !isCalled(begin+called) || isCalled(begin) {
		t.Error("code of a file that is no ELF file: the call is not found, or something else is")
	}
	if outermost, err := unreadable.outermost(begin); outermost || err != nil {
		t.Errorf("code of a file that is no ELF file: outermost %v, %v", outermost, err)
	}
	if _, ok, err := unreadable.callFrame(begin); ok || err != nil {
		t.Errorf("code of a file that is no ELF file: call frame information %v, %v", ok, err)
	}
	if _, ok := space.RuleByAnalysis(elf.EM_X86_64, start-1); ok {
		t.Error("a rule outside the mapping")
	}
	if rule, ok := space.RuleByAnalysis(elf.EM_AARCH64, start); ok {
		t.Errorf("arm64: %v", rule)
	}
}
