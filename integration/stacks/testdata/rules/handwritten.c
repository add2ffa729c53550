/*
 * Functions in assembly without any CFI, as most people write them:
 *   hand_leaf        no frame
 *   hand_pushes      rbp is a counter, and a function is called
 *   hand_aligned     the stack is aligned, and the old stack pointer kept on it
 *   hand_unrolled    longer than a page of unwind rows, with its return at the end
 *   hand_tail        leaves by a jump to another function
 *   hand_based       the stack is aligned, and rbx keeps the old stack pointer, as in OpenBLAS; far longer than a page
 */
#include "work.h"

#define FUNCTION(name, body) ".p2align 4\n.globl " name "\n.type " name ", @function\n" name ":\n" body ".size " name ", . - " name "\n"
#ifndef TURNS_OF_TAIL
#define TURNS_OF_TAIL "1000"
#endif
#define LOOP(register) "1: dec " register "\njnz 1b\n"

void hand_leaf(unsigned long n), hand_pushes(unsigned long n), hand_aligned(unsigned long n), hand_unrolled(unsigned long n), hand_tail(unsigned long n), hand_based(unsigned long n);

__asm__(".text\n"
	FUNCTION("hand_leaf", LOOP("%rdi") "ret\n")
	FUNCTION("hand_pushes",
		"push %rbx\npush %rbp\npush %r12\nsub $40, %rsp\n"
		"mov $3, %ebp\n"
		"mov %rdi, %rbx\n"
		"2: mov %rbx, %rdi\n"
		"call burn\n"
		"dec %ebp\njnz 2b\n"
		"add $40, %rsp\npop %r12\npop %rbp\npop %rbx\nret\n")
	FUNCTION("hand_aligned",
		"mov %rsp, %rax\n"
		"and $-64, %rsp\nsub $192, %rsp\n"
		"mov %rax, 184(%rsp)\n"
		LOOP("%rdi")
		"mov 184(%rsp), %rsp\nret\n")
	FUNCTION("hand_unrolled",
		"sub $4096, %rsp\n"
		"1:\n.rept 1000\nadd %rdi, (%rsp)\n.endr\n"
		"dec %rdi\njnz 1b\n"
		"add $4096, %rsp\nret\n")
	FUNCTION("hand_tail",
		"push %rbp\n"
		"xor %ebp, %ebp\n"
		LOOP("%rdi")
		"pop %rbp\n"
		"mov $" TURNS_OF_TAIL ", %edi\n"
		"jmp hand_leaf\n")
	FUNCTION("hand_based",
		"sub $96, %rsp\nmov %rbx, (%rsp)\nmov %rbp, 8(%rsp)\n"
		"mov %rsp, %rbx\nsub $0x7080, %rsp\nand $-4096, %rsp\n"
		"xor %ebp, %ebp\n"
		"1:\n.rept 5000\nadd %rdi, (%rsp)\n.endr\n"
		"dec %rdi\njnz 1b\n"
		"mov %rbx, %rsp\nmov (%rsp), %rbx\nmov 8(%rsp), %rbp\nadd $96, %rsp\nret\n"));

int main(int argc, char **argv)
{
	(void)argc;
	double each = atof(argv[1]);
	FOR_SECONDS(each) hand_leaf(400000);
	FOR_SECONDS(each) hand_pushes(60000);
	FOR_SECONDS(each) hand_aligned(400000);
	FOR_SECONDS(each) hand_unrolled(800);
	FOR_SECONDS(each) hand_tail(400000);
	FOR_SECONDS(each) hand_based(160);
	return 0;
}
