package unwindtable

import (
	"bytes"
	"slices"
	"testing"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// Machine code of gcc and the Go assembler.
var (
	sigreturnRAX   = ehtest.Asm{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}    // mov $15,%rax; syscall: musl, Go
	sigreturnEAX   = ehtest.Asm{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}                // mov $15,%eax; syscall
	sigreturnArm   = ehtest.Asm{0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4} // mov x8,#139; svc #0
	pushFrame      = ehtest.Asm{0x55, 0x48, 0x89, 0xe5}                         // push %rbp; mov %rsp,%rbp
	storeFrame     = ehtest.Asm{0x48, 0x89, 0x6c, 0x24, 0x18}                   // mov %rbp,24(%rsp)
	storeFrameFar  = ehtest.Asm{0x48, 0x89, 0xac, 0x24, 0x00, 0x02, 0x00, 0x00} // mov %rbp,512(%rsp)
	storeElsewhere = ehtest.Asm{0x48, 0x89, 0xac, 0x24, 0x00, 0x03, 0x00, 0x00} // mov %rbp,768(%rsp)
)

// codeAt returns a text segment of size bytes at text with pieces of code at
// offsets.
func codeAt(size int, pieces map[int]ehtest.Asm) []*Section {
	b := make([]byte, size)
	for off, piece := range pieces {
		copy(b[off:], piece)
	}
	return []*Section{assembled(text, b)}
}

// TestTrampolineX86 has signal trampolines without call frame information: in a gap, in a row of
// .debug_frame that treats it as a function, and across pages. .eh_frame takes precedence.
func TestTrampolineX86(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text+0x100, 32, offset(16))
	d := &ehtest.Frames{Debug: true}
	d.FDE(d.CIE(ehtest.CIE{Program: x86Initial()}), text+0x40, 32, offset(24))
	s := Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes), DebugFrame: assembled(0, d.Bytes),
		Text: codeAt(2*unwind.MaxPageSize, map[int]ehtest.Asm{
			0: sigreturnRAX, 0x48: sigreturnEAX, 0x108: sigreturnRAX, unwind.MaxPageSize - 4: sigreturnRAX,
		})}
	table, err := FromSections(s)
	if err != nil {
		t.Fatal(err)
	}
	const signal = " signal frame, sp at sp+160"
	checkPage(t, table, textPage, "0"+signal, "a no rule", "40 cfa=sp+24", "47"+signal, "4f cfa=sp+24", "60 no rule",
		"100 cfa=sp+16", "120 no rule", "fffb"+signal)
	checkPage(t, table, textPage+1, "0"+signal, "6 no rule")
	checkPage(t, table, textPage-1, "0 no rule", "ffff"+signal)

	s.EHFrame, s.DebugFrame = nil, nil // only code, as in a stripped musl
	if table, err = FromSections(s); err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage+1, "0"+signal, "6 no rule")
	if table.FDEs() != 0 {
		t.Errorf("%d FDEs", table.FDEs())
	}
}

// TestTrampolineOfGo has the trampoline of Go's runtime, a function that ends in a trap after the
// system call. The pc is at the trap during the system call. Go's assembler has two forms of the trap.
func TestTrampolineOfGo(t *testing.T) {
	d := &ehtest.Frames{Debug: true}
	cie := d.CIE(ehtest.CIE{Program: x86Initial()})
	d.FDE(cie, text+0x40, 16, nil)
	d.FDE(cie, text+0x50, 9, nil)
	d.FDE(cie, text+0x59, 16, nil)
	d.FDE(cie, text+0x80, 16, nil)
	table, err := FromSections(Sections{Machine: amd64, Go: true, DebugFrame: assembled(0, d.Bytes),
		Text: codeAt(unwind.MaxPageSize, map[int]ehtest.Asm{
			0x40: append(slices.Clone(sigreturnRAX), 0xcc), // int3
			0x50: sigreturnRAX, 0x59: pushFrame,
			0x80: append(slices.Clone(sigreturnRAX), 0xcd, 3), // int $3
		})})
	if err != nil {
		t.Fatal(err)
	}
	const signal = " signal frame, sp at sp+160"
	checkPage(t, table, textPage, "0 no rule", "3f"+signal, "4a cfa=sp+8", "4f"+signal, "59 cfa=sp+8", "69 no rule",
		"7f"+signal, "8a cfa=sp+8", "90 no rule")
}

// TestTrampolineAArch64 is the vdso of arm64: a trampoline without call frame information between
// functions with it.
func TestTrampolineAArch64(t *testing.T) {
	f := &ehtest.Frames{Addr: frameAddr}
	cie := f.CIE(ehtest.CIE{Augmentation: "zR", Return: 30, Program: armInitial()})
	f.FDE(cie, text, 32, nil)
	f.FDE(cie, text+44, 32, nil)
	table, err := FromSections(Sections{
		Machine: arm, EHFrame: assembled(f.Addr, f.Bytes), Text: codeAt(4096, map[int]ehtest.Asm{36: sigreturnArm}),
	})
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage, "0 cfa=sp+0 ra=lr", "20 no rule", "23 signal frame, sp at sp+560",
		"2c cfa=sp+0 ra=lr", "4c no rule")
}

// TestCodeIsReadWhereNeeded checks that text does not matter if .eh_frame leaves only padding.
func TestCodeIsReadWhereNeeded(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text, unwind.MaxPageSize-64, offset(16))
	f.FDE(cie, text+unwind.MaxPageSize, 64, offset(16))
	unread := &Section{Addr: text, Size: 2 * unwind.MaxPageSize, Data: broken{}}
	table, err := FromSections(Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes), Text: []*Section{unread}})
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage, "0 cfa=sp+16", "ffc0 no rule")
	checkPage(t, table, textPage+1, "0 cfa=sp+16", "40 no rule") // the code is unreadable
}

// TestGoFrames has .debug_frame of Go's linker, which does not mention the saved frame pointer.
func TestGoFrames(t *testing.T) {
	d := &ehtest.Frames{Debug: true}
	cie := d.CIE(ehtest.CIE{Program: x86Initial()})
	at := func(start uint64, rows ...[2]uint64) { // each: bytes of text, CFA
		program := offset(8)
		for _, r := range rows {
			program = then(program, byte(r[0]), r[1])
		}
		d.FDE(cie, text+start, 0x40, program)
	}
	at(0x000, [2]uint64{0x11, 16}, [2]uint64{7, 0x40}, [2]uint64{8, 8}, [2]uint64{8, 16}) // push, as since Go 1.21
	at(0x040, [2]uint64{0x10, 0x28}, [2]uint64{16, 8})                                    // store, as before
	at(0x080, [2]uint64{0x10, 0x210}, [2]uint64{16, 8})                                   // ... far away
	// assembly: not saved at the expected place
	at(0x0c0, [2]uint64{0x10, 0x210}, [2]uint64{16, 8})
	// assembly: pushes something else
	at(0x100, [2]uint64{0x10, 16}, [2]uint64{16, 8})
	s := Sections{Machine: amd64, Go: true, DebugFrame: assembled(0, d.Bytes),
		Text: codeAt(unwind.MaxPageSize, map[int]ehtest.Asm{
			0x010: pushFrame, 0x050: storeFrame, 0x090: storeFrameFar, 0x0d0: storeElsewhere,
			0x110: {0x53, 0x48, 0x89, 0xe5},
		})}
	table, err := FromSections(s)
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage,
		"0 cfa=sp+8", "11 cfa=sp+16 fp=*(cfa-16)", "18 cfa=sp+64 fp=*(cfa-16)", "20 cfa=sp+8",
		"28 cfa=sp+16 fp=*(cfa-16)",
		"40 cfa=sp+8", "50 cfa=sp+40", "55 cfa=sp+40 fp=*(cfa-16)", "60 cfa=sp+8",
		"90 cfa=sp+528", "98 cfa=sp+528 fp=*(cfa-16)", "a0 cfa=sp+8",
		"d0 cfa=sp+528 fp=undefined", "e0 cfa=sp+8",
		"110 cfa=sp+16 fp=undefined", "120 cfa=sp+8", "140 no rule")

	s.Go = false // .debug_frame of other linkers is complete
	if table, err = FromSections(s); err != nil {
		t.Fatal(err)
	}
	page, err := table.Page(textPage, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	if got := page.Rule(text + 0x18).String(); got != "cfa=sp+64" {
		t.Errorf("not Go: %s", got)
	}
}

// TestGoFramesAArch64 checks that the frame pointer is undefined after the prologue.
func TestGoFramesAArch64(t *testing.T) {
	d := &ehtest.Frames{Debug: true}
	cie := d.CIE(ehtest.CIE{Return: 30, Program: armInitial()})
	d.FDE(cie, text, 0x40, then(offset(0), 8, 48).Op(ehtest.OffsetExtendedSF).Uleb(30).Sleb(6))
	table, err := FromSections(Sections{Machine: arm, Go: true, DebugFrame: assembled(0, d.Bytes),
		Text: codeAt(64, nil)})
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage, "0 cfa=sp+0 ra=lr", "8 cfa=sp+48 fp=undefined", "40 no rule")
}

// TestCoroutineStart has glibc's __start_context: the caller of a frame that returns to its first
// byte is outermost. Other files are not searched for it.
func TestCoroutineStart(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text+0x40, 32, nil)
	f.FDE(cie, text+0x80, unwind.MaxPageSize-0x80, nil)
	s := Sections{Machine: amd64, CLibrary: true, EHFrame: assembled(f.Addr, f.Bytes),
		Text: codeAt(2*unwind.MaxPageSize, map[int]ehtest.Asm{
			0x40: {0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff},
		})}
	for library, want := range map[bool]string{true: "3f cfa=sp+8 ra=undefined", false: ""} {
		s.CLibrary = library
		table, err := FromSections(s)
		if err != nil {
			t.Fatal(err)
		}
		rows := []string{"0 no rule", want, "40 cfa=sp+8", "60 no rule", "80 cfa=sp+8"}
		checkPage(t, table, textPage, slices.DeleteFunc(rows, func(row string) bool { return row == "" })...)
	}
}

// TestCloneCall has the system call clone of two C libraries in gaps. It returns only in the
// parent. .eh_frame takes precedence.
func TestCloneCall(t *testing.T) {
	// syscall; test %rax,%rax; jl; je; ret; xor %ebp,%ebp
	glibc := ehtest.Asm{0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c, 0x18, 0x74, 0x01, 0xc3, 0x31, 0xed}
	// syscall; test %eax,%eax; jne; xor %ebp,%ebp
	musl := ehtest.Asm{0x0f, 0x05, 0x85, 0xc0, 0x75, 0x0f, 0x31, 0xed}
	other := ehtest.Asm{0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c, 0x18, 0xc3} // another system call
	f, cie := x86Frames()
	f.FDE(cie, text+0x80, 32, offset(16))
	table, err := FromSections(Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes),
		Text: codeAt(4096, map[int]ehtest.Asm{
			0x20: glibc, 0x40: musl, 0x60: other, 0x88: glibc,
		})})
	if err != nil {
		t.Fatal(err)
	}
	page := checkPage(t, table, textPage, "0 no rule", "20 cfa=sp+8 ra=*(cfa-8) unless rax=0", "2a no rule",
		"40 cfa=sp+8 ra=*(cfa-8) unless rax=0", "46 no rule",
		"80 cfa=sp+16", "a0 no rule")

	rule, stack := page.Rule(text+0x22), oneWord{0x7000, 0x1234}
	parent := unwind.Regs{PC: text + 0x22, SP: 0x7000, Exact: true, Full: true}
	const rax = 0 // its DWARF number
	parent.General[rax] = 42
	child := parent
	child.General[rax] = 0
	if o := unwind.Step(amd64, rule, &parent, stack); o != unwind.Unset || parent.PC != 0x1234 || parent.SP != 0x7008 {
		t.Errorf("parent: %v, pc %#x, sp %#x, want a caller at 0x1234 with sp 0x7008", o, parent.PC, parent.SP)
	}
	if o := unwind.Step(amd64, rule, &child, stack); o != unwind.Complete {
		t.Errorf("child: %v, want %v: its stack is a new one", o, unwind.Complete)
	}
}

// oneWord is a stack with one word, at its end.
type oneWord struct{ addr, value uint64 }

func (w oneWord) ReadU64(addr uint64) (uint64, bool) { return w.value, addr == w.addr }

func (w oneWord) EndsAt(uint64) bool { return true }

func (w oneWord) Called(uint64) bool { return true }

// TestCodeWithFramePointers has no call frame information. It has functions with and without frame
// pointers, with nop between them. Each instruction has a rule, except instructions that lead to
// unknown code.
func TestCodeWithFramePointers(t *testing.T) {
	const nop = 0x90
	code := bytes.Repeat([]byte{nop}, unwind.MaxPageSize)
	for at, piece := range map[int]ehtest.Asm{
		// It saves registers.
		0x00: {0x55, 0x48, 0x89, 0xe5, 0x53, 0x50, 0xe8, 0, 0, 0, 0x10, 0x5a, 0x5b, 0x5d, 0xc3},
		// A leaf without a frame: lea (%rdi,%rdi),%eax; ret
		0x20: {0x8d, 0x04, 0x3f, 0xc3},
		0x30: {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, 0x31, 0xc0, 0xc9, 0xc3},
		0x40: {0x55, 0x48, 0x89, 0xe5, 0xff, 0xe0}, // push %rbp; mov %rsp,%rbp; jmp *%rax
	} {
		copy(code[at:], piece)
	}
	table, err := FromSections(Sections{Machine: amd64, Code: [][2]uint64{{text, text + unwind.MaxPageSize}},
		Text: []*Section{assembled(text, code)}})
	if err != nil {
		t.Fatal(err)
	}
	const saved = " fp=*(cfa-16)"
	checkPage(t, table, textPage, "0 cfa=sp+8", "1 cfa=sp+16"+saved, "5 cfa=sp+24"+saved, "6 cfa=sp+32"+saved,
		"c cfa=sp+24"+saved, "d cfa=sp+16"+saved, "e cfa=sp+8", "31 cfa=sp+16"+saved, "34 cfa=fp+16"+saved,
		"3b cfa=sp+8", "3c no rule")
}

// TestLongFunction has no call frame information. A function of 28 KB aligns its stack and keeps
// the old stack pointer in rbx, as OpenBLAS's dgemm does. Each page of it has the rule, although
// the return is far away.
func TestLongFunction(t *testing.T) {
	const size, nop = 28 << 10, 0x90
	code := bytes.Repeat([]byte{nop}, unwind.MaxPageSize)
	begin := ehtest.Asm{0x48, 0x83, 0xec, 0x18, // sub $24,%rsp
		0x48, 0x89, 0x1c, 0x24, // mov %rbx,(%rsp)
		0x48, 0x89, 0x6c, 0x24, 8, // mov %rbp,8(%rsp)
		0x48, 0x89, 0xe3, // mov %rsp,%rbx
		0x48, 0x81, 0xe4, 0, 0xf0, 0xff, 0xff, // and $-4096,%rsp
		0x31, 0xed} // xor %ebp,%ebp
	end := ehtest.Asm{0x48, 0x89, 0xdc, // mov %rbx,%rsp
		0x48, 0x8b, 0x1c, 0x24, // mov (%rsp),%rbx
		0x48, 0x8b, 0x6c, 0x24, 8, // mov 8(%rsp),%rbp
		0x48, 0x83, 0xc4, 0x18, 0xc3} // add $24,%rsp; ret
	copy(code, begin)
	copy(code[size:], end)
	table, err := FromSections(Sections{Machine: amd64, Code: [][2]uint64{{text, text + unwind.MaxPageSize}},
		Text: []*Section{assembled(text, code)}})
	if err != nil {
		t.Fatal(err)
	}
	const kept = "cfa=r3+32 fp=*(cfa-24)"
	for page, want := range map[uint64]string{1: kept, 2: kept, 6: kept} {
		p, err := table.Page(text>>unwind.MinPageShift+page, unwind.MinPageShift)
		if err != nil {
			t.Fatal(err)
		}
		rule := p.Rule(text + page<<unwind.MinPageShift + 0x800)
		if rule.String() != want {
			t.Errorf("page %d: %s, want %s", page, rule, want)
		}
	}
}

// TestThreadInFunction has the system call clone in a function with call frame information. The
// child has a new stack: it has no caller. The information is right for the parent.
func TestThreadInFunction(t *testing.T) {
	call := ehtest.Asm{0x0f, 0x05, 0x48, 0x85, 0xc0, 0x75, 0x13} // syscall; test %rax,%rax; jne
	// xor %rbp,%rbp; pop %rax; pop %rdi; call *%rax
	calls := ehtest.Asm{0x48, 0x31, 0xed, 0x58, 0x5f, 0xff, 0xd0}
	// mov %rax,%rdi; mov $60,%rax; syscall
	exits := ehtest.Asm{0x48, 0x89, 0xc7, 0x48, 0xc7, 0xc0, 60, 0, 0, 0, 0x0f, 0x05}
	other := ehtest.Asm{0x48, 0x89, 0xc7, 0x48, 0xc7, 0xc0, 39, 0, 0, 0, 0x0f, 0x05} // another system call
	leaves := ehtest.Asm{0x48, 0x83, 0xc4, 0x08, 0xc3}                               // add $8,%rsp; ret
	forks := ehtest.Asm{0x48, 0x31, 0xed, 0x90, 0x90, 0x90, 0x90}                    // a child with its parent's stack
	for name, test := range map[string]struct {
		code ehtest.Asm
		want []string
	}{
		"a thread": {slices.Concat(call, calls, exits, leaves), []string{"0 cfa=sp+16",
			"100 cfa=sp+16 ra=*(cfa-8) unless rax=0", "107 cfa=sp+8 ra=undefined", "11a cfa=sp+16", "1000 no rule"}},
		"it goes on": {slices.Concat(call, calls, other, leaves), []string{"0 cfa=sp+16", "1000 no rule"}},
		"a process":  {slices.Concat(call, forks, exits, leaves), []string{"0 cfa=sp+16", "1000 no rule"}},
	} {
		f, cie := x86Frames()
		f.FDE(cie, text, 0x1000, offset(16))
		table, err := FromSections(Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes),
			Text: codeAt(2*unwind.MaxPageSize, map[int]ehtest.Asm{0x100: test.code})})
		if err != nil {
			t.Fatal(name, err)
		}
		t.Log(name)
		checkPage(t, table, textPage, test.want...)
	}
}
