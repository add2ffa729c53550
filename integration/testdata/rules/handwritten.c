/*
 * Functions in assembly without any CFI, as most people write them:
 *   leaf        no frame
 *   pushes      rbp is a counter, and a function is called
 *   aligned     the stack is aligned, and the old stack pointer kept on it
 *   unrolled    longer than a page of unwind rows, with its return at the end
 *   tail        leaves by a jump to another function
 */
#include "work.h"

#define FUNCTION(name, body) ".p2align 4\n.globl " name "\n.type " name ", @function\n" name ":\n" body ".size " name ", . - " name "\n"
#define LOOP(register) "1: dec " register "\njnz 1b\n"

void leaf(unsigned long n), pushes(unsigned long n), aligned(unsigned long n), unrolled(unsigned long n), tail(unsigned long n);

__asm__(".text\n"
	FUNCTION("leaf", LOOP("%rdi") "ret\n")
	FUNCTION("pushes",
		"push %rbx\npush %rbp\npush %r12\nsub $40, %rsp\n"
		"mov $3, %ebp\n"
		"mov %rdi, %rbx\n"
		"2: mov %rbx, %rdi\n"
		"call burn\n"
		"dec %ebp\njnz 2b\n"
		"add $40, %rsp\npop %r12\npop %rbp\npop %rbx\nret\n")
	FUNCTION("aligned",
		"mov %rsp, %rax\n"
		"and $-64, %rsp\nsub $192, %rsp\n"
		"mov %rax, 184(%rsp)\n"
		LOOP("%rdi")
		"mov 184(%rsp), %rsp\nret\n")
	FUNCTION("unrolled",
		"sub $4096, %rsp\n"
		"1:\n.rept 1000\nadd %rdi, (%rsp)\n.endr\n"
		"dec %rdi\njnz 1b\n"
		"add $4096, %rsp\nret\n")
	FUNCTION("tail",
		"push %rbp\n"
		"xor %ebp, %ebp\n"
		LOOP("%rdi")
		"pop %rbp\n"
		"mov $1000000, %edi\n"
		"jmp leaf\n"));

int main(int argc, char **argv)
{
	(void)argc;
	time_t end = deadline(argv);
	while (time(NULL) < end) {
		leaf(4000000);
		pushes(600000);
		aligned(4000000);
		unrolled(8000);
		tail(3000000);
	}
	return 0;
}
