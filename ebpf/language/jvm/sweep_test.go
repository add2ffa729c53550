package jvm

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// assemble joins bytes in hex, one instruction a line; the text after // is the instruction as objdump shows it.
func assemble(t *testing.T, text string) []byte {
	t.Helper()
	var code []byte
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		b, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, b...)
	}
	return code
}

// TestSweep has code that HotSpot 17 and 25 made, shortened. The expected rules follow from the instructions.
func TestSweep(t *testing.T) {
	const entry, whole = "cfa=sp+8", "cfa=sp+64 fp=*(cfa-16)"
	const interpretedFrame = "cfa=*(fp-8)+0 fp=*(fp+0) ra=*(fp+8)"
	for _, test := range []struct {
		name  string
		piece piece
		code  string
		want  map[int]string // from an offset on
	}{
		{"compiled, with a probe of the stack", piece{kind: compiled, size: 64, complete: 0x0c}, `
			89 84 24 00 c0 fe ff // mov [rsp-0x14000],eax
			55                   // push rbp
			48 83 ec 30          // sub rsp,0x30
			e8 00 01 00 00       // call
			48 83 c4 30          // add rsp,0x30
			5d                   // pop rbp
			49 3b a7 40 03 00 00 // cmp rsp,[r15+0x340]
			0f 87 07 00 00 00    // ja
			c3                   // ret
			e8 00 01 00 00       // call
			90                   // nop
			90                   // nop
			66 90                // nop, at the target of ja`,
			map[int]string{0: entry, 0x08: "cfa=sp+16 fp=*(cfa-16)", 0x0c: whole, 0x15: "cfa=sp+16 fp=*(cfa-16)", 0x16: entry,
				0x24: whole, 0x2a: entry},
		},
		{"compiled, without push", piece{kind: compiled, size: 32, complete: 0x0c}, `
			48 81 ec 18 00 00 00 // sub rsp,0x18
			48 89 6c 24 10       // mov [rsp+0x10],rbp
			33 c0                // xor eax,eax
			48 83 c4 10          // add rsp,0x10
			5d                   // pop rbp
			c3                   // ret`,
			map[int]string{0: entry, 0x07: "cfa=sp+32", 0x0c: "cfa=sp+32 fp=*(cfa-16)", 0x12: "cfa=sp+16 fp=*(cfa-16)",
				0x13: entry},
		},
		{"compiled, not to be entered any more", piece{kind: compiled, size: 64, complete: 0x0c}, `
			e9 00 10 00 00       // jmp, over the probe of the stack
			fe ff                // left of it
			55                   // push rbp
			48 83 ec 30          // sub rsp,0x30
			e8 00 01 00 00       // call`,
			map[int]string{0: entry, 0x08: "cfa=sp+16 fp=*(cfa-16)", 0x0c: whole},
		},
		{"compiled, calls with two words pushed", piece{kind: compiled, size: 64, complete: 0}, `
			50                   // push rax
			51                   // push rcx
			e8 00 01 00 00       // call
			58                   // pop rax
			59                   // pop rcx
			90                   // nop`,
			map[int]string{0: whole, 1: "cfa=sp+72 fp=*(cfa-16)", 2: "cfa=sp+80 fp=*(cfa-16)", 8: "cfa=sp+72 fp=*(cfa-16)",
				9: whole},
		},
		{"compiled, with room made for a short string", piece{kind: compiled, size: 64, complete: 0}, `
			48 8b cc             // mov rcx,rsp
			72 07                // jb
			48 83 ec 10          // sub rsp,0x10
			48 8b fc             // mov rdi,rsp
			51                   // push rcx
			90                   // nop
			5c                   // pop rsp
			90                   // nop`,
			map[int]string{0: whole, 9: "cfa=sp+80 fp=*(cfa-16)", 0x0d: "cfa=*(sp+0)+64 fp=*(cfa-16)", 0x0f: whole},
		},
		{"of an exception", piece{kind: exception, complete: -1}, `
			52                   // push rdx
			48 83 ec 10          // sub rsp,0x10
			48 89 2c 24          // mov [rsp],rbp
			90                   // nop`,
			map[int]string{0: "cfa=sp+0 ra=r1", 1: entry, 5: "cfa=sp+24", 9: "cfa=sp+24 fp=*(cfa-24)"},
		},
		{"of an exception, with an aligned stack aligned", piece{kind: exception, complete: -1}, `
			52                   // push rdx
			48 83 ec 08          // sub rsp,0x8
			48 89 2c 24          // mov [rsp],rbp
			48 83 e4 f0          // and rsp,-16
			e8 00 10 00 00       // call
			48 8b 2c 24          // mov rbp,[rsp]
			48 83 c4 08          // add rsp,0x8
			5a                   // pop rdx
			41 ff e0             // jmp r8`,
			map[int]string{0: "cfa=sp+0 ra=r1", 1: entry, 5: "cfa=sp+16", 9: "cfa=sp+16 fp=*(cfa-16)",
				0x16: "cfa=sp+16", 0x1a: entry, 0x1b: "cfa=sp+0 ra=r1"},
		},
		{"stub with a frame pointer and a loop", piece{kind: stub, complete: -1}, `
			55                   // push rbp
			48 8b ec             // mov rbp,rsp
			48 83 ec 60          // sub rsp,0x60
			eb 03                // jmp to the loop's end
			48 ff c9             // dec rcx
			75 fb                // jne
			c9                   // leave
			c3                   // ret
			c3                   // ret`,
			map[int]string{0: entry, 1: "cfa=sp+16 fp=*(cfa-16)", 4: "cfa=fp+16 fp=*(cfa-16)", 0x10: entry},
		},
		{"stub after data, with an aligned stack and rbp for other things", piece{kind: stub, complete: -1}, `
			c3                   // ret
			ff ff                // data; together with what follows: call [rbp+0x48]
			55                   // push rbp
			48 8b ec             // mov rbp,rsp
			52                   // push rdx
			51                   // push rcx
			48 8b c4             // mov rax,rsp
			48 83 ec 70          // sub rsp,0x70
			48 83 e4 e0          // and rsp,-32
			48 89 44 24 38       // mov [rsp+0x38],rax
			48 89 6c 24 40       // mov [rsp+0x40],rbp
			48 81 c5 80 00 00 00 // add rbp,0x80
			48 8b 6c 24 40       // mov rbp,[rsp+0x40]
			48 8b 64 24 38       // mov rsp,[rsp+0x38]
			59                   // pop rcx
			5a                   // pop rdx
			c9                   // leave
			c3                   // ret`,
			map[int]string{0: entry, 4: "cfa=sp+16 fp=*(cfa-16)", 7: "cfa=fp+16 fp=*(cfa-16)",
				0x19: "cfa=*(sp+56)+32 fp=*(cfa-16)", 0x2f: "cfa=sp+32 fp=*(cfa-16)", 0x30: "cfa=sp+24 fp=*(cfa-16)",
				0x31: "cfa=sp+16 fp=*(cfa-16)", 0x32: entry},
		},
		{"second stub of several, with a branch", piece{kind: stub, complete: -1}, `
			c3                   // ret
			55                   // push rbp
			48 8b ec             // mov rbp,rsp
			74 02                // je
			c9                   // leave
			c3                   // ret
			e8 00 01 00 00       // call, at the target
			c9                   // leave
			c3                   // ret`,
			map[int]string{0: entry, 2: "cfa=sp+16 fp=*(cfa-16)", 5: "cfa=fp+16 fp=*(cfa-16)", 8: entry,
				9: "cfa=fp+16 fp=*(cfa-16)", 0x0f: entry},
		},
		{"from compiled code to the interpreter", piece{kind: adapter}, `
			58                   // pop rax
			4c 8b ec             // mov r13,rsp
			48 83 ec 10          // sub rsp,0x10
			48 89 04 24          // mov [rsp],rax
			ff 63 40             // jmp [rbx+0x40]`,
			map[int]string{0: entry, 1: "cfa=sp+0 ra=r0", 4: "cfa=r13+0 ra=r0"},
		},
		{"from compiled code to the interpreter, which has the call patched", piece{kind: adapter}, `
			4c 8b ec             // mov r13,rsp
			48 83 e4 f0          // and rsp,-16
			9c                   // pushf
			48 81 ec 80 00 00 00 // sub rsp,0x80
			4c 89 6c 24 10       // mov [rsp+0x10],r13
			48 81 ec 00 02 00 00 // sub rsp,0x200
			e8 00 01 00 00       // call
			48 81 c4 00 02 00 00 // add rsp,0x200
			4c 8b 6c 24 10       // mov r13,[rsp+0x10]
			9d                   // popf
			49 8b e5             // mov rsp,r13
			90                   // nop`,
			map[int]string{0: entry, 3: "cfa=r13+8", 0x14: "cfa=*(sp+16)+8", 0x1b: "cfa=*(sp+528)+8", 0x27: "cfa=*(sp+16)+8",
				0x2c: "cfa=r13+8", 0x30: entry},
		},
		{"stub that pushes before its frame pointer", piece{kind: stub, complete: -1}, `
			6a ff                // push -1
			55                   // push rbp
			48 8b ec             // mov rbp,rsp
			57                   // push rdi
			c9                   // leave
			48 83 c4 08          // add rsp,8
			c3                   // ret`,
			map[int]string{0: entry, 2: "cfa=sp+16", 3: "cfa=sp+24 fp=*(cfa-24)", 6: "cfa=fp+24 fp=*(cfa-24)", 8: "cfa=sp+16",
				0x0c: entry},
		},
		{"from the interpreter to compiled code", piece{kind: adapter}, `
			48 8b 04 24          // mov rax,[rsp]
			48 83 e4 f0          // and rsp,-16
			50                   // push rax
			ff 63 40             // jmp [rbx+0x40]`,
			map[int]string{0: entry, 8: "cfa=r13+0 ra=r0", 9: entry},
		},
		{"into the interpreter", piece{kind: interpreterEntry}, `
			8b 41 2e             // mov eax,[rcx+0x2e]
			58                   // pop rax
			6a 00                // push 0
			50                   // push rax
			55                   // push rbp
			48 8b ec             // mov rbp,rsp
			41 55                // push r13
			6a 00                // push 0
			90                   // nop`,
			map[int]string{0: entry, 3: "cfa=r13+0 ra=*(sp+0)", 4: "cfa=r13+0 ra=r0", 0x0b: "cfa=r13+0 fp=*(fp+0) ra=r0",
				0x0d: interpretedFrame},
		},
		{"out of the interpreter", piece{kind: interpreterCode}, `
			50                   // push rax
			48 8b 5d f8          // mov rbx,[rbp-8]
			c9                   // leave
			5f                   // pop rdi
			48 8b e3             // mov rsp,rbx
			ff e7                // jmp rdi
			90                   // nop`,
			map[int]string{0: interpretedFrame, 6: "cfa=r3+0 ra=*(sp+0)", 7: "cfa=r3+0 ra=r5", 0x0a: "cfa=sp+0 ra=r5",
				0x0c: interpretedFrame},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.piece.code = assemble(t, test.code)
			got := map[int]string{}
			for _, r := range test.piece.rules() {
				got[r.at] = r.rule.String()
			}
			for _, at := range slices.Sorted(mapsKeys(got, test.want)) {
				if got[at] != test.want[at] {
					t.Errorf("+%#x: %q, want %q", at, got[at], test.want[at])
				}
			}
		})
	}
}

// mapsKeys yields the keys of two maps, some twice.
func mapsKeys(a, b map[int]string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, m := range []map[int]string{a, b} {
			for k := range m {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// TestLeftOver has the remains of C1 where it jumps over longer instructions: bytes that look as if the frame was
// popped.
func TestLeftOver(t *testing.T) {
	code := append(assemble(t, "eb 01 5d"), bytes.Repeat([]byte{0x90}, 4)...)
	for _, r := range (piece{kind: compiled, code: code, size: 64, complete: 0}).rules() {
		if want := "cfa=sp+64 fp=*(cfa-16)"; fmt.Sprint(r.rule) != want {
			t.Errorf("+%d: %v, want %s", r.at, r.rule, want)
		}
	}
}

// FuzzSweep checks that rules are in order, and that the sweep ends.
func FuzzSweep(f *testing.F) {
	f.Add([]byte{0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1})
	f.Add([]byte{0x66, 0x66, 0x66, 0x48, 0x89, 0x84, 0x24, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, code []byte) {
		code = code[:min(len(code), 4096)]
		for _, kind := range []kind{compiled, stub, adapter, interpreterCode, interpreterEntry, exception} {
			last := -1
			for _, r := range (piece{kind: kind, code: code, size: 64, complete: len(code) / 4}).rules() {
				if r.at <= last || r.at >= len(code) {
					t.Fatalf("rule at %d after one at %d", r.at, last)
				}
				last = r.at
			}
		}
	})
}
