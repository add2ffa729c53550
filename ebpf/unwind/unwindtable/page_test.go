package unwindtable

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/ebpf/unwind"
	"github.com/headwater/headwater/ebpf/unwind/ehframe/ehtest"
)

// describe writes a page as one line for each row.
func describe(p *unwind.Page) []string {
	if len(p.Rows) == 0 {
		return []string{"0 no rule"}
	}
	var out []string
	for _, r := range p.Rows {
		out = append(out, fmt.Sprintf("%x %s", r.Off, p.Widen(r)))
	}
	return out
}

func checkPage(t *testing.T, table *Table, n uint64, want ...string) *unwind.Page {
	t.Helper()
	page, err := table.Page(n, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, describe(page)); diff != "" {
		t.Errorf("page %#x (-want +got):\n%s", n, diff)
	}
	return page
}

// offset returns a program that sets the CFA's offset in the first row.
func offset(n uint64) ehtest.Asm { return asm().Op(ehtest.DefCFAOffset).Uleb(n) }

// then continues a program n bytes of text later.
func then(program ehtest.Asm, n byte, cfa uint64) ehtest.Asm {
	return append(program.Op(ehtest.AdvanceLoc1).Op(n), offset(cfa)...)
}

func x86Frames() (*ehtest.Frames, uint64) {
	f := &ehtest.Frames{Addr: frameAddr}
	return f, f.CIE(ehtest.CIE{Augmentation: "zR", Program: x86Initial()})
}

const textPage = text >> unwind.MaxPageShift

// TestPageBorders has an FDE that starts two pages earlier and an FDE that extends into the next
// page.
func TestPageBorders(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text-unwind.MaxPageSize-16, unwind.MaxPageSize+32, then(offset(16), 16+8, 24))
	f.FDE(cie, text+unwind.MaxPageSize-16, 32, then(offset(32), 24, 40))
	table := tableOf(t, amd64, f)
	checkPage(t, table, textPage-2, "0 no rule", "fff0 cfa=sp+16")
	checkPage(t, table, textPage-1, "0 cfa=sp+16", "8 cfa=sp+24")
	checkPage(t, table, textPage, "0 cfa=sp+24", "10 no rule", "fff0 cfa=sp+32")
	checkPage(t, table, textPage+1, "0 cfa=sp+32", "8 cfa=sp+40", "10 no rule")
	checkPage(t, table, textPage+2, "0 no rule")
	checkPage(t, table, 0, "0 no rule")
	checkPage(t, table, 1<<48-1, "0 no rule")
	if _, err := table.Page(1<<48, unwind.MaxPageShift); err == nil {
		t.Error("a page beyond the address space")
	}
}

// TestNeighbours checks that the next function replaces an end marker, that equal neighbours become
// one row, and that FDEs without text are ignored even if they precede an FDE that extends into the
// page.
func TestNeighbours(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text-32, 48, offset(64))
	f.FDE(cie, text-16, 0, offset(72))
	f.FDE(cie, text+0x20, 16, offset(16))
	f.FDE(cie, text+0x30, 16, offset(16))
	f.FDE(cie, text+0x40, 0, offset(80))
	f.FDE(cie, text+0x40, 16, then(offset(24), 4, 24))
	checkPage(t, tableOf(t, amd64, f), textPage,
		"0 cfa=sp+64", "10 no rule", "20 cfa=sp+16", "40 cfa=sp+24", "50 no rule")
}

// TestOverlap checks that an FDE that starts inside another FDE takes precedence, as in a binary
// search.
func TestOverlap(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text, 64, then(offset(16), 32, 24))
	f.FDE(cie, text+16, 8, offset(32))
	checkPage(t, tableOf(t, amd64, f), textPage, "0 cfa=sp+16", "10 cfa=sp+32", "18 no rule")
}

// TestWideRules checks that equal wide rules of a page are kept once.
func TestWideRules(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text, 64, then(then(then(offset(40000), 8, 16), 8, 40000), 8, 50000))
	page := checkPage(t, tableOf(t, amd64, f), textPage,
		"0 cfa=sp+40000", "8 cfa=sp+16", "10 cfa=sp+40000", "18 cfa=sp+50000", "40 no rule")
	if len(page.Wide) != 2 {
		t.Errorf("%d wide rules, want 2", len(page.Wide))
	}
	want := []uint64{
		0x0000_0000_00_06_0000, 0x0000_0010_00_01_0008, 0x0000_0000_00_06_0010, 0x0000_0001_00_06_0018,
		0x0000_0000_00_00_0040,
		40000<<32 | 1, 0, 50000<<32 | 1, 0,
	}
	if diff := cmp.Diff(want, page.Words()); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
}

// TestUnsupported checks that text without a usable rule is counted, and that a bad FDE does not
// affect its neighbours.
func TestUnsupported(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text, 64, then(offset(16), 16, 24).Op(0x3f))
	bad := f.FDE(cie, text+64, 64, nil)
	f.FDE(cie, text+128, 64, nil)
	f.Bytes[bad+4] ^= 8 // its CIE offset is wrong
	page := checkPage(t, tableOf(t, amd64, f), textPage,
		"0 cfa=sp+16", "10 unsupported: bad_program", "40 unsupported: bad_entry", "80 cfa=sp+8", "c0 no rule")
	if diff := cmp.Diff(map[unwind.Reason]int{unwind.ReasonBadProgram: 48, unwind.ReasonBadEntry: 64},
		page.Unsupported); diff != "" {
		t.Error(diff)
	}
}

// TestBadHeader checks that a table entry with a wrong offset affects only its own text.
func TestBadHeader(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text, 32, offset(16))
	f.FDE(cie, text+32, 32, offset(24))
	hdr := f.Header(hdrAddr)
	hdr[len(hdr)-1] = 0x70 // the last FDE is far away
	table, err := FromSections(Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes),
		EHFrameHdr: assembled(hdrAddr, hdr)})
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage, "0 cfa=sp+16", "20 unsupported: bad_entry")
}

// TestNoHeader checks that the pages are the same without a search table, and with a search table
// of another section.
func TestNoHeader(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text+32, 32, offset(24))
	f.FDE(cie, text, 32, offset(16))
	elsewhere := *f
	elsewhere.Addr += 4096
	for name, hdr := range map[string]*Section{
		"none": nil, "elsewhere": assembled(hdrAddr, elsewhere.Header(hdrAddr)),
		"cut":   assembled(hdrAddr, f.Header(hdrAddr)[:6]),
		"empty": assembled(hdrAddr, (&ehtest.Frames{Addr: f.Addr}).Header(hdrAddr)),
	} {
		t.Run(name, func(t *testing.T) {
			table, err := FromSections(Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes), EHFrameHdr: hdr})
			if err != nil {
				t.Fatal(err)
			}
			checkPage(t, table, textPage, "0 cfa=sp+16", "20 cfa=sp+24", "40 no rule")
			if table.FDEs() != 2 {
				t.Errorf("%d FDEs", table.FDEs())
			}
		})
	}
}

// TestDebugFrame checks that .debug_frame fills the gaps of .eh_frame, and
// only those.
func TestDebugFrame(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text+16, 16, offset(16))
	f.FDE(cie, text+48, 16, offset(24))
	d := &ehtest.Frames{Debug: true}
	dcie := d.CIE(ehtest.CIE{Program: x86Initial()})
	d.FDE(dcie, text, 40, then(offset(40000), 20, 48))
	d.FDE(dcie, text+56, 16, offset(56))
	both := Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes), DebugFrame: assembled(0, d.Bytes)}
	table, err := FromSections(both)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second page comes from a builder with buffers
		checkPage(t, table, textPage, "0 cfa=sp+40000", "10 cfa=sp+16", "20 cfa=sp+48", "28 no rule",
			"30 cfa=sp+24", "40 cfa=sp+56", "48 no rule")
		checkPage(t, table, textPage+1, "0 no rule")
	}
	both.EHFrame = nil
	if table, err = FromSections(both); err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage, "0 cfa=sp+40000", "14 cfa=sp+48", "28 no rule", "38 cfa=sp+56", "48 no rule")
}

// TestGaps counts the bytes of code without call frame information: neither padding, nor text that is no code, nor text
// that .debug_frame covers.
func TestGaps(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text+32, 32, offset(16)) // 32 bytes of code before it
	f.FDE(cie, text+72, 24, offset(16)) // 8 bytes of padding before it, 24 bytes of code and constants behind it
	d := &ehtest.Frames{Debug: true}
	d.FDE(d.CIE(ehtest.CIE{Program: x86Initial()}), text, 32, nil)
	for name, want := range map[string]int{"eh_frame": 32 + 24, "both": 24, "go": 0} {
		s := Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes), Code: [][2]uint64{{text, text + 120}}}
		switch name {
		case "both":
			s.DebugFrame = assembled(0, d.Bytes)
		case "go":
			s.Go = true
		}
		table, err := FromSections(s)
		require.NoError(t, err)
		page, err := table.Page(textPage, unwind.MaxPageShift)
		require.NoError(t, err)
		require.Equal(t, want, page.Gaps, name)
	}
}

// TestMaxRows builds a page with a row for every byte.
func TestMaxRows(t *testing.T) {
	f, cie := x86Frames()
	var program ehtest.Asm
	for i := range uint64(1 << 15) {
		program = then(then(program, 1, 16), 1, 24+i)
	}
	f.FDE(cie, text, unwind.MaxPageSize, program)
	page, err := tableOf(t, amd64, f).Page(textPage, unwind.MaxPageShift)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Rows) > unwind.MaxRows {
		t.Errorf("%d rows", len(page.Rows))
	}
}

// TestEffort has an index that refers to the same long FDE again and again. The rest of the page
// has no rules.
func TestEffort(t *testing.T) {
	f, cie := x86Frames()
	program := make(ehtest.Asm, 1<<20)
	f.FDE(cie, text+16, 32, append(offset(16), program...))
	again := *f
	for range 9 {
		again.Repeat()
	}
	again.FDE(cie, text+64, 64, offset(24))
	table, err := FromSections(Sections{Machine: amd64, EHFrame: assembled(f.Addr, again.Bytes),
		EHFrameHdr: assembled(hdrAddr, again.Header(hdrAddr))})
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, table, textPage, "0 no rule", "10 unsupported: bad_index")
}

// broken is an unreadable file.
type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errors.New("broken") }

// TestReadError checks that a read error is returned, and not treated as a page without rows.
func TestReadError(t *testing.T) {
	f, cie := x86Frames()
	f.FDE(cie, text, 64, nil)
	s := Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes), EHFrameHdr: assembled(hdrAddr, f.Header(hdrAddr))}
	s.EHFrame.Data = broken{}
	table, err := FromSections(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Page(textPage, unwind.MaxPageShift); err == nil {
		t.Error("no error")
	}
	s.EHFrame = assembled(f.Addr, f.Bytes[:16])
	s.EHFrame.Size = uint64(len(f.Bytes)) // the file was truncated
	if table, err = FromSections(s); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Page(textPage, unwind.MaxPageShift); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want ErrUnexpectedEOF", err)
	}
}

// TestConcurrentPages builds pages in many goroutines.
func TestConcurrentPages(t *testing.T) {
	f, cie := x86Frames()
	for i := range uint64(8) {
		f.FDE(cie, text+i*unwind.MaxPageSize, 64, offset(16+8*i))
	}
	for _, hdr := range []*Section{nil, assembled(hdrAddr, f.Header(hdrAddr))} {
		table, err := FromSections(Sections{Machine: amd64, EHFrame: assembled(f.Addr, f.Bytes), EHFrameHdr: hdr})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for i := range uint64(64) {
			group.Go(func() {
				page, err := table.Page(textPage+i%8, unwind.MaxPageShift)
				if err != nil || page.Rule(text).CFAOff != int32(16+8*(i%8)) {
					t.Errorf("page %d: %v, %v", i%8, page, err)
				}
			})
		}
		group.Wait()
	}
}

// FuzzPage builds pages from sections of any content.
func FuzzPage(f *testing.F) {
	frames, cie := x86Frames()
	frames.FDE(cie, text, 64, then(offset(16), 16, 40000))
	f.Add([]byte(frames.Bytes), []byte(frames.Header(hdrAddr)), []byte(sigreturnRAX), true)
	f.Add([]byte(frames.Bytes), []byte(nil), []byte(pushFrame), false)
	f.Fuzz(func(t *testing.T, frame, hdr, code []byte, isX86 bool) {
		machine := arm
		if isX86 {
			machine = amd64
		}
		table, err := FromSections(Sections{
			Machine: machine, EHFrame: assembled(frameAddr, frame), EHFrameHdr: assembled(hdrAddr, hdr),
			DebugFrame: assembled(0, frame),
			Text:       []*Section{assembled(text, code)}, Entry: text + 16, Go: len(code)%2 == 0,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []uint64{0, textPage, 1<<48 - 1} {
			page, err := table.Page(n, unwind.MaxPageShift)
			if err != nil {
				t.Fatal(err)
			}
			checkPages(t, &pages{built: map[uint64]*unwind.Page{n: page}})
			if _, _, err := table.Entry(n << unwind.MaxPageShift); err != nil && !foreign(err) {
				t.Fatal(err)
			}
		}
	})
}

// TestEntryCode has an entry point without call frame information, in each of several programs. Its
// own code is outermost, and no other code.
func TestEntryCode(t *testing.T) {
	exit := ehtest.Asm{0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05}           // mov %eax,%edi; mov $60,%eax; syscall
	hot := ehtest.Asm{0xb9, 1, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3}       // mov $1,%ecx; 1: dec %ecx; jnz 1b; ret
	call := func(n byte) ehtest.Asm { return ehtest.Asm{0xe8, n, 0, 0, 0} } // calls the code n bytes after it
	xor := ehtest.Asm{0x31, 0xed, 0x48, 0x83, 0xe4, 0xf0}                   // xor %ebp,%ebp; and $-16,%rsp
	armExit := ehtest.Asm{0x40, 0, 0, 0x94, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4, 0xc0, 0x03, 0x5f, 0xd6}
	for _, test := range []struct {
		name    string
		machine elf.Machine
		code    ehtest.Asm
		want    []string
	}{
		{"a function follows", amd64, slices.Concat(xor, call(9), exit, hot),
			[]string{"20 cfa=sp+8 ra=undefined", "34 cfa=sp+8", "3e no rule"}},
		{"what is called does not return", amd64, slices.Concat(xor, call(0x70), hot),
			[]string{"20 cfa=sp+8 ra=undefined", "2b cfa=sp+8", "35 no rule"}},
		{"the function that is called follows", amd64, slices.Concat(xor, call(2), ehtest.Asm{0x66, 0x90}, hot),
			[]string{"20 cfa=sp+8 ra=undefined", "2d cfa=sp+8", "37 no rule"}},
		{"jumps", amd64, slices.Concat(ehtest.Asm{0xeb, 2, 0x50, 0xc3}, xor, call(0x70), ehtest.Asm{0xf4}),
			[]string{"20 cfa=sp+8 ra=undefined", "22 no rule", "24 cfa=sp+8 ra=undefined", "30 no rule"}},
		{"a function", amd64, hot, []string{"20 cfa=sp+8", "2a no rule"}},
		{"exit by a byte", amd64, slices.Concat(call(0x70), ehtest.Asm{0x31, 0xc0, 0xb0, 60, 0x31, 0xff, 0x0f, 0x05}, hot),
			[]string{"20 cfa=sp+8 ra=undefined", "2d cfa=sp+8", "37 no rule"}},
		// bl; mov x8,#93; svc #0; ret
		{"arm64", arm, armExit, []string{"20 cfa=sp+8 ra=undefined", "2c no rule"}},
	} {
		f, cie := x86Frames()
		if test.machine == arm {
			f = &ehtest.Frames{Addr: frameAddr}
			cie = f.CIE(ehtest.CIE{Augmentation: "zR", Return: 30, Program: armInitial()})
		}
		f.FDE(cie, text, 32, nil)
		f.FDE(cie, text+0x90, 16, nil)
		s := Sections{Machine: test.machine, EHFrame: assembled(f.Addr, f.Bytes), Entry: text + 0x20,
			Code: [][2]uint64{{text, text + unwind.MaxPageSize}},
			Text: codeAt(unwind.MaxPageSize, map[int]ehtest.Asm{0x20: test.code})}
		table, err := FromSections(s)
		require.NoError(t, err, test.name)
		checkCode(t, table, test.name, test.want)

		s.Entry = 0 // in a library
		table, err = FromSections(s)
		require.NoError(t, err, test.name)
		for at := uint64(0x20); at < 0x90; at++ {
			page, err := table.Page(textPage, unwind.MaxPageShift)
			require.NoError(t, err)
			if page.Rule(text+at).RA() == unwind.RAUndefined {
				t.Fatalf("%s: in a library, %#x is outermost", test.name, at)
			}
		}
	}
}

// checkCode compares the rules between the functions of TestEntryCode.
func checkCode(t *testing.T, table *Table, name string, want []string) {
	t.Helper()
	page, err := table.Page(textPage, unwind.MaxPageShift)
	require.NoError(t, err)
	var got []string
	last := ""
	for at := uint64(0x20); at < 0x90; at++ {
		if rule := page.Rule(text + at).String(); rule != last {
			got, last = append(got, fmt.Sprintf("%x %s", at, rule)), rule
		}
	}
	require.Equal(t, want, got, name)
}
