/*
 * Spends equal times where one rule of unwinding each matters, so that a profiler that has one of them wrong shows wrong stacks in a tenth of its
 * samples. The functions in assembly spin; their caller's frame is found by rbp alone, so that an error about rbp shows one frame later.
 *   room           CFA = rsp + 48
 *   late_rbp       the rule of rbp begins later than that of the CFA, and nothing else tells them apart
 *   restored       rbp has been popped, and where it was is something else now
 *   nested         between two restore_state
 *   first          spins in its first instruction; the rules of what is before it are others
 *   ends_in_call   the return address is in the next function's FDE
 *   plt            the expression that linkers write for lazy binding
 *   by_r10         CFA = r10 + 8, in the second half of its FDE; there is no other way to find it
 *   over_pages     begins on one page of 4 KiB and spins on the next
 *   large          a frame of 40,000 bytes, which are written: perf copies what is there
 *   on_signal      a signal handler
 */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>

#include "work.h"

#define FUNCTION(name, body) ".globl " name "\n.type " name ", @function\n" name ": .cfi_startproc\n" body ".cfi_endproc\n.size " name ", . - " name "\n"
#define LOOP "1: dec %rdi\njnz 1b\n"
#define BY_R10 "mov %rsp, %r10\n.cfi_def_cfa r10, 8\npush %rbp\n.cfi_offset rbp, -16\nxor %ebp, %ebp\nxor %r11d, %r11d\nand $-64, %rsp\nsub $128, %rsp\n"
#define LEAVE_R10 "mov -8(%r10), %rbp\n.cfi_restore rbp\nmov %r10, %rsp\n.cfi_def_cfa rsp, 8\nret\n"

/* The turns are in rdi, and in rcx. */
typedef void spin(unsigned long turns, unsigned long, unsigned long, unsigned long same);
spin room, late_rbp, restored, nested, first, ends_in_call, plt, by_r10, over_pages, large;

__asm__(".text\n"
	FUNCTION("room", "sub $40, %rsp\n.cfi_def_cfa_offset 48\n" LOOP "add $40, %rsp\n.cfi_def_cfa_offset 8\nret\n")
	FUNCTION("late_rbp",
		"push %rbp\n.cfi_def_cfa_offset 16\nnop\n.cfi_offset rbp, -16\nxor %ebp, %ebp\n" LOOP
		"pop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore rbp\nret\n")
	FUNCTION("restored",
		"push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\nxor %ebp, %ebp\n"
		"pop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore rbp\nmovq $0, -8(%rsp)\n" LOOP "ret\n")
	FUNCTION("nested",
		"push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\n.cfi_remember_state\n"
		"push %rbx\n.cfi_def_cfa_offset 24\n.cfi_offset rbx, -24\n.cfi_remember_state\n"
		"sub $800, %rsp\n.cfi_def_cfa_offset 824\ntest %rdi, %rdi\njz 2f\n"
		"add $800, %rsp\n.cfi_restore_state\n" LOOP
		"pop %rbx\n.cfi_restore_state\npop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore rbp\nret\n"
		"2: ud2\n")
	FUNCTION("before_first", "sub $88, %rsp\n.cfi_def_cfa_offset 96\nud2\n")
	FUNCTION("first", "1: loop 1b\nret\n")
	FUNCTION("ends_in_call", "sub $88, %rsp\n.cfi_def_cfa_offset 96\ncall spin_and_leave\n")
	FUNCTION("behind_call", "push %rbx\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\nret\n")
	/* CFA = rsp + 8 + ((rip & 15) >= 11) * 8 */
	".p2align 4\n"
	FUNCTION("plt",
		".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
		".rept 6\nnop\n.endr\n.byte 0x68, 0, 0, 0, 0\n" /* push, up to byte 11 */
		LOOP
		".cfi_def_cfa rsp, 16\nadd $8, %rsp\n.cfi_def_cfa_offset 8\nret\n")
	FUNCTION("by_r10", BY_R10 ".rept 100\nnop\n.endr\n" LOOP LEAVE_R10)
	".p2align 12\n.skip 4096 - 48, 0xcc\n"
	FUNCTION("over_pages", BY_R10 ".rept 100\nnop\n.endr\n" LOOP LEAVE_R10)
	FUNCTION("large", "sub $40000, %rsp\n.cfi_def_cfa_offset 40008\n.set at, 0\n.rept 10\nmovq $0, at(%rsp)\n.set at, at + 4000\n.endr\n" LOOP "add $40000, %rsp\n.cfi_def_cfa_offset 8\nret\n"));

static jmp_buf back;
static unsigned long turns;

_Noreturn FRAME void spin_and_leave(void)
{
	burn(turns / 8);
	longjmp(back, 1);
}

/* Its size is not known before, so that rbp leads to its frame. */
FRAME unsigned long by_rbp(spin *function, unsigned long n)
{
	volatile char *some = alloca((n & 63) + 16);
	some[0] = 1;
	turns = n;
	if (!setjmp(back))
		function(n, 0, 0, n);
	return some[0];
}

static void on_signal(int number)
{
	(void)number;
	by_rbp(room, 400000);
}

FRAME static void interrupted(unsigned long n, unsigned long a, unsigned long b, unsigned long c)
{
	(void)(n + a + b + c);
	raise(SIGUSR1);
}

int main(int argc, char **argv)
{
	(void)argc;
	static spin *const all[] = {room, late_rbp, restored, nested, first, ends_in_call, plt, by_r10, over_pages, large, interrupted};
	signal(SIGUSR1, on_signal);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		FOR_SECONDS(atof(argv[1])) by_rbp(all[i], 400000);
	return 0;
}
