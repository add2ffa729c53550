package stackheight

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headwater/headwater/ebpf/ehframe/ehtest"
	"github.com/headwater/headwater/ebpf/x86"
)

// TestCallFrameInformation treats the text of files with call frame information as text without it,
// and compares the rules with readelf's.
func TestCallFrameInformation(t *testing.T) {
	for _, path := range ehtest.Files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) { compareRules(t, path) })
	}
}

func compareRules(t *testing.T, path string) {
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
	found := map[uint64]Rule{}
	var reader Analysis
	reader.Rules(Gap{text.Addr, text.Addr + text.Size, text.Addr, code}, func(addr uint64, _ int, r Rule) bool {
		found[addr] = r
		return true
	})
	a := Analysis{gap: Gap{Text: code}}
	a.decode() // to find the starts of instructions
	var same, none, wrong, fp, foreign int
	ehtest.EachFDE(t, path, ".eh_frame", func(fde *ehtest.FDE) {
		for i, row := range fde.Rows {
			end := fde.End
			if i+1 < len(fde.Rows) {
				end = fde.Rows[i+1].Loc
			}
			cfa, rbp := fde.Cell(row, "CFA"), fde.Cell(row, "rbp")
			for pc := row.Loc; pc < end; pc++ {
				if pc < text.Addr || pc >= text.Addr+text.Size || a.number[pc-text.Addr] == 0 {
					continue
				}
				if i := a.number[pc-text.Addr] - 1; a.code[i].effect == pads && i > 0 && !a.code[i-1].goesOn() {
					continue // never executed
				}
				r, ok := found[pc]
				switch got := r.cells(); {
				case !strings.HasPrefix(cfa, "rsp") && !strings.HasPrefix(cfa, "rbp"):
					foreign++
				case !ok:
					none++
				case r.Kind == SP && strings.HasPrefix(cfa, "rbp") || r.Kind == FP && strings.HasPrefix(cfa, "rsp") ||
					r.Kind > FP:
					fp++
				case got == cfa+" "+rbp, got == cfa+" u" && rbp == "", got == cfa+" u" && below(cfa, rbp):
					same++
				default:
					if wrong++; wrong <= 30 {
						t.Logf("%x: % x %s, readelf says %s rbp=%s", pc, code[pc-text.Addr:pc-text.Addr+8], got, cfa,
							rbp)
					}
				}
			}
		}
	})
	t.Logf("%d instructions alike, %d without a rule, %d wrong, %d by the other register, "+
		"%d whose frame readelf does not find by rsp or rbp", same, none, wrong, fp, foreign)
	// A call that does not return continues in the next function. C++ landing pads only make such
	// calls.
	limit := 0.0005 // 0.0003 in libc, 0.0002 in fio, below 0.0001 in the other files
	if strings.HasPrefix(filepath.Base(path), "libstdc++") {
		limit = 0.004 // 0.0028
	}
	if share := float64(wrong) / float64(same); share > limit {
		t.Errorf("%.2g of the rules are wrong, at most %.2g should be", share, limit)
	}
	if none*9 > same {
		t.Errorf("one instruction in %d has no rule, at most one in nine should have none", same/none)
	}
}

// cells formats a rule as readelf does.
func (r Rule) cells() string {
	s := fmt.Sprintf("%s%+d", []string{"", "rsp", "rbp", "*rsp", "*rbp"}[r.Kind], r.Off)
	if r.FP == 0 {
		return s + " u"
	}
	return s + fmt.Sprintf(" c%+d", r.FP)
}

// below reports whether the slot of rbp is below the stack pointer: rbp is already popped, which
// compilers do not record.
func below(cfa, rbp string) bool {
	height, err := strconv.Atoi(strings.TrimPrefix(cfa, "rsp+"))
	at, err2 := strconv.Atoi(strings.TrimPrefix(rbp, "c-"))
	return err == nil && err2 == nil && at > height
}

// goesOn reports whether the next instruction may be executed after this one, or is also padding.
func (in instruction) goesOn() bool {
	return in.effect != returns && in.effect != jumps && in.effect != jumpsAnyway && in.effect != leavesBy &&
		in.effect != stops && in.effect != calls
}

// TestRulesOfCode has small examples of hand-written functions, with the expected rule for each
// instruction.
func TestRulesOfCode(t *testing.T) {
	tests := map[string]struct {
		code []byte
		want []string
	}{
		"leaf": {[]byte{0x31, 0xc0, 0xc3}, []string{"0 rsp+8 u", "2 rsp+8 u"}},
		"pushes": {[]byte{0x53, 0x55, 0x50, 0x58, 0x5d, 0x5b, 0xc3},
			[]string{"0 rsp+8 u", "1 rsp+16 u", "2 rsp+24 c-24", "3 rsp+32 c-24", "4 rsp+24 c-24", "5 rsp+16 u",
				"6 rsp+8 u"}},
		"jump": {[]byte{0x50, 0xeb, 0x01, 0xf4, 0x58, 0xc3},
			[]string{"0 rsp+8 u", "1 rsp+16 u", "4 rsp+16 u", "5 rsp+8 u"}},
		"loop": {[]byte{0x6a, 0x01, 0xff, 0xc9, 0x75, 0xfc, 0x48, 0x83, 0xc4, 0x08, 0xc3},
			[]string{"0 rsp+8 u", "2 rsp+16 u", "4 rsp+16 u", "6 rsp+16 u", "10 rsp+8 u"}},
		"frame pointer": {[]byte{0x55, 0x90, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0xc9, 0xc3},
			[]string{"0 rsp+8 u", "1 rsp+16 c-16", "2 rsp+16 c-16", "5 rbp+16 c-16", "9 rbp+16 c-16", "10 rsp+8 u"}},
		"contradiction": {[]byte{0x74, 0x01, 0x58, 0xc3}, []string{"2 rsp+16 u", "3 rsp+8 u"}},
		"data":          {[]byte{0x06, 0xc3}, []string{"1 rsp+8 u"}},
		"exit":          {[]byte{0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05, 0xc3}, []string{"7 rsp+8 u"}},
		"no return": {[]byte{0xe8, 1, 1, 1, 1, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x90, 0xc3},
			[]string{"5 rsp+8 u", "15 rsp+8 u", "16 rsp+8 u"}},
		// push %rax; call f; pop %rax; ret; f: push %rbx; call *%rdi; call exit; and another function
		"calls exit": {[]byte{0x50, 0xe8, 2, 0, 0, 0, 0x58, 0xc3, 0x53, 0xff, 0xd7, 0xe8, 0, 16, 0, 0, 0x31, 0xc0, 0xc3},
			[]string{"0 rsp+8 u", "1 rsp+16 u", "6 rsp+16 u", "7 rsp+8 u", "8 rsp+8 u", "9 rsp+16 u", "11 rsp+16 u",
				"16 rsp+8 u", "18 rsp+8 u"}},
		// lea f(%rip),%rax; ret; f: push %rbp; mov %rsp,%rbp; and $-16,%rsp; call *%rax; hlt
		"stops": {[]byte{0x48, 0x8d, 0x05, 1, 0, 0, 0, 0xc3, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xf0, 0xff, 0xd0,
			0xf4}, []string{"0 rsp+8 u", "7 rsp+8 u", "8 rsp+8 u", "9 rsp+16 c-16", "12 rsp+16 c-16", "16 rbp+16 c-16",
			"18 rbp+16 c-16"}},
		// push %rbx; lea 1f(%rip),%rax; nop; 1: je 2f; pop %rbx; ret; 2: ud2
		"address in a function": {[]byte{0x53, 0x48, 0x8d, 0x05, 1, 0, 0, 0, 0x90, 0x74, 2, 0x5b, 0xc3, 0x0f, 0x0b},
			[]string{"0 rsp+8 u", "1 rsp+16 u", "8 rsp+16 u", "9 rsp+16 u", "11 rsp+16 u", "12 rsp+8 u"}},
		"unknown jump":   {[]byte{0x50, 0xff, 0xe0}, nil},
		"another's slot": {[]byte{0xff, 0x25, 1, 1, 1, 1}, []string{"0 rsp+8 u"}},
		// mov %rsp,%rax; and $-32,%rsp; sub $64,%rsp; mov %rax,56(%rsp); nop; mov 56(%rsp),%rsp; ret
		"aligned": {[]byte{0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x83, 0xec, 0x40, 0x48, 0x89, 0x44, 0x24,
			0x38, 0x90, 0x48, 0x8b, 0x64, 0x24, 0x38, 0xc3},
			[]string{"16 *rsp+56 u +8", "17 *rsp+56 u +8", "22 rsp+8 u"}},
		// push %rbp; sub $16,%rsp; mov %rbp,(%rsp); xor %ebp,%ebp; mov (%rsp),%rbp; add $24,%rsp; ret
		"saved": {[]byte{0x55, 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0x2c, 0x24, 0x31, 0xed, 0x48, 0x8b, 0x2c, 0x24,
			0x48, 0x83, 0xc4, 0x18, 0xc3},
			[]string{"0 rsp+8 u", "1 rsp+16 u", "5 rsp+32 u", "9 rsp+32 c-32", "11 rsp+32 c-32", "15 rsp+32 u",
				"19 rsp+8 u"}},
	}
	for name, test := range tests {
		const addr = 0x1000
		var a Analysis
		var got []string
		a.Rules(Gap{addr, addr + uint64(len(test.code)), addr, test.code}, func(at uint64, _ int, r Rule) bool {
			line := fmt.Sprint(at-addr, " ", r.cells())
			if r.Add != 0 {
				line += fmt.Sprintf(" %+d", r.Add)
			}
			got = append(got, line)
			return true
		})
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// FuzzRules checks that rules are for instructions of the text, in order, and that the analysis
// terminates.
func FuzzRules(f *testing.F) {
	f.Add(uint64(0x1000), []byte{0x55, 0x48, 0x89, 0xe5, 0x74, 0xfa, 0xc9, 0xc3})
	f.Add(^uint64(0)-8, []byte{0xeb, 0x7f, 0x62, 0xc4, 0x8f, 0xe8, 0x66, 0x66, 0xe9})
	f.Fuzz(func(t *testing.T, addr uint64, code []byte) {
		var a Analysis
		next := addr
		a.Rules(Gap{addr, addr + uint64(len(code)), addr, code}, func(at uint64, size int, r Rule) bool {
			if at-addr < next-addr || size < 1 || at-addr+uint64(size) > uint64(len(code)) {
				t.Fatalf("%x, %d bytes, after %x", at, size, next)
			}
			if r.Kind == Unknown || r.Kind == SP && (r.Off < 8 || r.Off+r.FP < 0) {
				t.Fatalf("%x: %+v", at, r)
			}
			next = at + uint64(size)
			return true
		})
	})
}

// Plain instructions have no effect. Try all instructions for all values of the first three bytes.
func TestPlain(t *testing.T) {
	plain := 0
	for first := range 1 << 24 {
		code := []byte{byte(first), byte(first >> 8), byte(first >> 16), 0x24, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		in, ok := x86.Decode(code)
		if !ok || !isPlain(&in) {
			continue
		}
		plain++
		if e, n := followed(x86.StackEffect(&in)); e != nothing || n != 0 {
			t.Fatalf("% x has effect %d, %d", code[:in.Length], e, n)
		}
	}
	if plain < 1<<20 {
		t.Errorf("only %d instructions are plain", plain)
	}
}
