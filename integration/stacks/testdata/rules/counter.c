/*
 * Functions in assembly without CFI whose way back is through jumps that nobody can follow. inner keeps a frame pointer; outer, which calls it, counts
 * in rbp, which is zero: no end of the stack.
 */
#include "work.h"

#define FUNCTION(name, body) ".p2align 4\n.globl " name "\n.type " name ", @function\n" name ":\n" body ".size " name ", . - " name "\n"

void outer(unsigned long turns);

__asm__(".data\nback_inner: .quad leave_inner\nback_outer: .quad leave_outer\n.text\n"
	FUNCTION("inner",
		"push %rbp\nmov %rsp, %rbp\nsub $64, %rsp\n"
		"1: dec %rdi\njnz 1b\n"
		"jmp *back_inner(%rip)\n"
		"leave_inner: leave\nret\n")
	FUNCTION("outer",
		"push %rbp\nsub $48, %rsp\nxor %ebp, %ebp\n"
		"call inner\n"
		"jmp *back_outer(%rip)\n"
		"leave_outer: add $48, %rsp\npop %rbp\nret\n"));

int main(int argc, char **argv)
{
	(void)argc;
	FOR_SECONDS(atof(argv[1])) outer(400000);
	return 0;
}
