/*
 * Functions in assembly, with the CFI that compilers emit now and then:
 *   by_r10, by_rdi      CFA = r10 + 8, rdi + 8, in a leaf
 *   by_rbx              CFA = rbx + 16, with a call (only with -DBY_RBX)
 *   ends_in_call        its last instruction calls a function that does not return, so the return address is in next's FDE
 *   nested              remember_state and restore_state, two deep, and DW_CFA_restore to the CIE's rule
 */
#include <setjmp.h>

#include "work.h"

#define FUNCTION(name, body) ".globl " name "\n.type " name ", @function\n" name ": .cfi_startproc\n" body ".cfi_endproc\n.size " name ", . - " name "\n"
#define LOOP "1: dec %rsi\njnz 1b\n"

unsigned long by_r10(unsigned long a, unsigned long n), by_rdi(unsigned long a, unsigned long n);
unsigned long by_rbx(unsigned long n), nested(unsigned long a, unsigned long n);
_Noreturn void ends_in_call(void);

__asm__(".text\n"
	FUNCTION("by_r10",
		"mov %rsp, %r10\n.cfi_def_cfa r10, 8\n"
		"sub $40, %rsp\nand $-64, %rsp\n"
		LOOP
		"mov %r10, %rsp\n.cfi_def_cfa rsp, 8\nret\n")
	FUNCTION("by_rdi",
		"mov %rsp, %rdi\n.cfi_def_cfa rdi, 8\n"
		"sub $40, %rsp\nand $-64, %rsp\n"
		LOOP
		"mov %rdi, %rsp\n.cfi_def_cfa rsp, 8\nret\n")
	FUNCTION("by_rbx",
		"push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset rbx, -16\n"
		"mov %rsp, %rbx\n.cfi_def_cfa_register rbx\n"
		"and $-64, %rsp\nsub $128, %rsp\n"
		"call burn\n"
		"mov %rbx, %rsp\n.cfi_def_cfa_register rsp\n"
		"pop %rbx\n.cfi_def_cfa_offset 8\n.cfi_restore rbx\nret\n")
	FUNCTION("ends_in_call",
		"sub $88, %rsp\n.cfi_def_cfa_offset 96\n"
		"call burn_and_leave\n")
	FUNCTION("next",
		"push %rbx\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\nret\n")
	FUNCTION("nested",
		"push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\n"
		"xor %ebp, %ebp\n"
		".cfi_remember_state\n"
		"push %rbx\n.cfi_def_cfa_offset 24\n.cfi_offset rbx, -24\n"
		".cfi_remember_state\n"
		"sub $800, %rsp\n.cfi_def_cfa_offset 824\n"
		"test %rsi, %rsi\njz 2f\n"
		"add $800, %rsp\n.cfi_restore_state\n"
		"pop %rbx\n.cfi_restore_state\n"
		LOOP
		"pop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore rbp\n"
		"ret\n"
		"2: ud2\n"));

static jmp_buf back;

_Noreturn FRAME void burn_and_leave(void)
{
	burn(200000);
	longjmp(back, 1);
}

FRAME void leave_and_return(void)
{
	if (!setjmp(back))
		ends_in_call();
}

int main(int argc, char **argv)
{
	(void)argc;
	double each = atof(argv[1]);
#ifdef BY_RBX
	FOR_SECONDS(each) by_rbx(200000);
#else
	FOR_SECONDS(each) by_r10(0, 400000);
	FOR_SECONDS(each) by_rdi(0, 400000);
	FOR_SECONDS(each) nested(0, 400000);
	FOR_SECONDS(each) leave_and_return();
#endif
	return 0;
}
