package symbol

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// assembled is assembly in a typical style. END closes a function: with SIZED it gives the function a type and a size,
// otherwise it is empty. fast_copy, looped, forward, stops and rare are global. The function after each of the five is
// not global, and has no call frame information.
const assembled = `
#ifdef SIZED
#define END(name) .type name,@function; .size name,.-name
#define DATA(name) .type name,@object; .size name,.-name
#else
#define END(name)
#define DATA(name)
#endif
	.text
	.globl fast_copy, looped, forward, stops, with_table, rare
fast_copy:
	mov %rsi,%rax
	ret
END(fast_copy)
hidden_near:
	lea 1(%rdi),%rax
	ret
END(hidden_near)
	.p2align 4
looped:
	mov $100,%ecx
	jmp 2f
1:	add %rdi,%rax
	dec %ecx
2:	test %ecx,%ecx
	jne 1b
	ret
END(looped)
hidden_tail:
	jmp hidden_target
END(hidden_tail)
forward:
	test %rdi,%rdi
	je 1f
	mov $1,%eax
	ret
	.p2align 4
1:	mov $2,%eax
	jmp hidden_target
END(forward)
hidden_target:
	mov %rdi,%rax
	mov $7,%ecx
	ret
END(hidden_target)
	.p2align 4
stops:
	push %rax
	call abort@PLT
END(stops)
	.p2align 4
hidden_last:
	xor %eax,%eax
	nop
	ret
END(hidden_last)
	.p2align 4
	.globl table
table:
	.quad 0, 1, 2, 3
DATA(table)
hidden_behind_data:
	xor %eax,%eax
	nop
	ret
END(hidden_behind_data)
with_table:
	lea 1f(%rip),%rax
	movslq (%rax,%rdi,4),%rax
	ret
END(with_table)
#ifdef SIZED
	.type with_data,@object
	.size with_data,8
#endif
with_data:
1:	.long 3, 4
hidden_behind_table:
	mov $3,%eax
	ret
END(hidden_behind_table)
	.section .text.unlikely,"ax",@progbits
rare:
	ud2
END(rare)
	.section .note.GNU-stack,"",@progbits
`

// compiled calls the functions of assembled and has its own functions; one is split.
const compiled = `
#include <stdlib.h>
extern unsigned long fast_copy(unsigned long, unsigned long), looped(unsigned long), forward(unsigned long);
extern void stops(void), rare(void);
extern unsigned long with_table(unsigned long);
static volatile unsigned long sink;
__attribute__((noinline, cold)) static void hidden_cold(void) { sink++; abort(); }
__attribute__((noinline)) static void hidden_burn(void) { for (int i = 0; i < 200000; i++) sink += i * sink; }
__attribute__((noinline)) static void hidden_work(int n) { hidden_burn(); if (n > 1000) hidden_cold(); sink++; }
__attribute__((noinline)) static void hidden_service(int n) {
	hidden_work(n);
	if (__builtin_expect(n > 500, 0)) { sink += fast_copy(1, 2); hidden_cold(); }
}
int main(int argc, char **argv) {
	sink = fast_copy(1, 2) + looped(1) + forward(1) + with_table(1);
	if (argc > 10) stops();
	if (argc > 11) rare();
	for (;;) hidden_service(argc);
}`

// TestLabelsEndWithTheirFunctions: in a program without local symbols, each address has either its name from a build of
// the same code with all symbols and sizes, or no name. The assembler's global functions are named completely.
func TestLabelsEndWithTheirFunctions(t *testing.T) {
	first, last, dynamic := []string{"s.o", "c.o"}, []string{"c.o", "s.o"}, []string{"-rdynamic"}
	for _, c := range []struct {
		name    string
		flags   []string
		objects []string // in the order of linking; s.o is made from assembled
		link    []string
	}{
		{"with frames", []string{"-O2"}, last, dynamic},
		{"assembly first", []string{"-O2"}, first, dynamic},
		{"without frames", []string{"-Os", "-fno-asynchronous-unwind-tables"}, last, dynamic},
		{"debug_frame", []string{"-O2", "-g", "-fno-asynchronous-unwind-tables"}, first, dynamic},
		{"static", []string{"-O2"}, last, []string{"-static"}},
	} {
		dir := t.TempDir()
		writeFile(t, []byte(compiled), dir, "c.c")
		writeFile(t, []byte(assembled), dir, "s.S")
		run(t, "", "gcc", append(slices.Clone(c.flags), "-c", "-o", dir+"/c.o", dir+"/c.c")...)
		run(t, "", "gcc", "-c", "-o", dir+"/s.o", dir+"/s.S")
		run(t, "", "gcc", "-DSIZED", "-c", "-o", dir+"/sized.o", dir+"/s.S")
		link := func(program string, sized bool, flags ...string) string {
			out := filepath.Join(dir, program)
			args := append(slices.Concat(c.link, flags), "-o", out)
			for _, object := range c.objects {
				if sized && object == "s.o" {
					object = "sized.o"
				}
				args = append(args, filepath.Join(dir, object))
			}
			run(t, "", "gcc", args...)
			return out
		}
		truth, whole := link("truth", true), link("whole", false)
		programs := map[string]string{"whole": whole, "ld -x": link("x", false, "-Wl,-x")}
		if c.name == "with frames" {
			programs["ld -X"] = link("X", false, "-Wl,-X")
		}
		for _, flag := range []string{"-x", "-s"} {
			if flag == "-s" && slices.Contains(c.link, "-static") {
				continue // it has no symbol
			}
			programs["strip "+flag] = filepath.Join(dir, "stripped"+flag)
			run(t, "", "strip", flag, "-o", programs["strip "+flag], whole)
		}
		for how, program := range programs {
			t.Run(c.name+", "+how, func(t *testing.T) { checkLabels(t, truth, program) })
		}
	}
}

func checkLabels(t *testing.T, truth, program string) {
	s, o := New(Options{DebugDirs: []string{t.TempDir()}}), object(t, 1, program)
	own := func(name string) bool {
		return strings.HasPrefix(name, "hidden") || name == "main" || slices.Contains([]string{"fast_copy", "looped",
			"forward", "stops", "with_table", "rare"}, name)
	}
	checked, named := 0, 0
	for _, f := range nmFunctions(t, truth) {
		if !own(f.name) {
			continue
		}
		for at := f.addr; at < f.addr+f.size; at++ {
			got := s.Frames(o, at, false)[0]
			checked++
			switch {
			case got.Kind == Native && sameSource(got.Function, f.name):
				named++
			case got.Kind != Unknown || !strings.HasPrefix(f.name, "hidden"):
				t.Errorf("%s+%#x is %+v", f.name, at-f.addr, got)
			}
		}
	}
	t.Logf("%d of %d bytes of code have a name", named, checked)
	if checked < 200 || named < 50 {
		t.Errorf("%d of %d bytes of code have a name", named, checked)
	}
}
