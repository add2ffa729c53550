package unwind

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwater/headwater/ebpf/ehframe/ehtest"
)

// The start code of a shared library, as objdump shows it.
var (
	initCode = ehtest.Asm{
		0x48, 0x83, 0xec, 0x08, // sub $8,%rsp
		0x48, 0x8b, 0x05, 0xd5, 0x7f, 0, 0, // mov __gmon_start__,%rax
		0x48, 0x85, 0xc0, 0x74, 0x02, 0xff, 0xd0, // test %rax,%rax; je; call *%rax
		0x48, 0x83, 0xc4, 0x08, 0xc3, // add $8,%rsp; ret
	}
	finiCode = ehtest.Asm{0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08, 0x48, 0x83, 0xc4, 0x08, 0xc3} // endbr64; sub; add; ret
	auxCode  = ehtest.Asm{
		0xf3, 0x0f, 0x1e, 0xfa, 0x80, 0x3d, 0x45, 0x2a, 0x02, 0, 0, 0x75, 0x2b, // endbr64; cmpb $0,done; jne
		0x55, 0x48, 0x83, 0x3d, 0x4a, 0x25, 0x02, 0, 0, 0x48, 0x89, 0xe5, 0x74, 0x0c, // push %rbp; cmpq; mov %rsp,%rbp; je
		0x48, 0x8b, 0x3d, 0x6e, 0x25, 0x02, 0, 0xe8, 0x61, 0xff, 0xff, 0xff, 0xe8, 0x64, 0xff, 0xff, 0xff, // mov; call; call
		0xc6, 0x05, 0x1d, 0x2a, 0x02, 0, 0x01, 0x5d, 0xc3, 0x0f, 0x1f, 0, // movb; pop %rbp; ret
		0xc3, 0x0f, 0x1f, 0x80, 0, 0, 0, 0, // ret
		0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0x77, 0xff, 0xff, 0xff, // frame_dummy: endbr64; jmp register_tm_clones
	}
)

// TestStartCode has the code of start files in gaps, between pages too. What
// .eh_frame says stands, and code that only begins like it is none. That the rows
// are right at every instruction is shown by TestEveryInstruction of package
// integration.
func TestStartCode(t *testing.T) {
	const page = 0x1000
	f, cie := x86Frames()
	f.FDE(cie, text+0x20, 0x20, offset(16))
	f.FDE(cie, text+0x100, 0x40, offset(24))
	f.FDE(cie, text+page+0x40, 0x40, offset(16))
	other := append(ehtest.Asm{}, initCode...)
	other[len(other)-1] = 0x90 // goes on
	table, err := FromSections(Sections{Machine: x86, EHFrame: assembled(f.Addr, f.Bytes), Text: codeAt(3*page, map[int]ehtest.Asm{
		0: initCode, 0x60: auxCode, 0x110: finiCode, 0x160: other, page - 20: auxCode,
		page + 0x38: finiCode, // an FDE is about its end
		2*page + 8:  finiCode,
	})})
	if err != nil {
		t.Fatal(err)
	}
	check := func(n uint64, want ...string) {
		t.Helper()
		got, err := table.Page(text>>MinPageShift+n, MinPageShift)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, describe(got)); diff != "" {
			t.Errorf("page %d (-want +got):\n%s", n, diff)
		}
	}
	check(0, "0 cfa=sp+8", "4 cfa=sp+16", "16 cfa=sp+8", "17 no rule", "20 cfa=sp+16", "40 no rule",
		"60 cfa=sp+8", "6e cfa=sp+16 fp=*(cfa-16)", "94 cfa=sp+8", "a9 no rule", "100 cfa=sp+24", "140 no rule",
		"fec cfa=sp+8", "ffa cfa=sp+16 fp=*(cfa-16)")
	check(1, "1000 cfa=sp+16 fp=*(cfa-16)", "1020 cfa=sp+8", "1035 no rule", "1040 cfa=sp+16", "1080 no rule")
	check(2, "2000 no rule", "2008 cfa=sp+8", "2010 cfa=sp+16", "2014 cfa=sp+8", "2015 no rule")
}

// TestStartCodes reads the known ones: each is shorter than what is looked at beyond
// a page, and its rows are those of code that takes its frame back.
func TestStartCodes(t *testing.T) {
	for i, c := range startCodes(elf.EM_X86_64) {
		if len(c.code) == 0 || len(c.code) > maxStartCode || len(c.key) == 0 || !c.begins(c.code) || !bytes.Contains(c.code, []byte{0xc3}) {
			t.Errorf("%d: %x, of which %x comes first", i, c.code, c.key)
		}
		last := -1
		for _, r := range c.rows {
			if int(r.Off) <= last || int(r.Off) >= len(c.code) {
				t.Errorf("%d: row %v of %d bytes", i, r, len(c.code))
			}
			last = int(r.Off)
		}
		if c.rows[0].Off != 0 || c.rows[len(c.rows)-1].CFAOff != 8 {
			t.Errorf("%d: rows %v", i, c.rows)
		}
	}
}
