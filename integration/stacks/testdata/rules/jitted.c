/*
 * Code in memory of no file, as programs make it for themselves that compile regular
 * expressions or filters: rbp points to zeros on the stack, which is not the end of a
 * chain of frames, a loop goes back before the pc, and a function is called. The code
 * is copied from here. First it is the loop that takes the time, then the function.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "work.h"

extern const char made[], made_end[];

__asm__(".text\n"
	"made:\n"
	"push %rbp\npush %rbx\npush %r12\nsub $64, %rsp\n"
	"mov %rsi, %r12\n"
	"lea 8(%rsp), %rbp\n"
	"movq $0, (%rbp)\nmovq $0, 8(%rbp)\n"
	"1: mov %rdi, %rbx\n"
	"2: dec %rbx\n"
	"jz 4f\n"
	"3: test $1, %bl\n"
	"jz 2b\n"
	"jmp 2b\n"
	"4: mov $200000, %edi\n"
	"call *%r12\n"
	"add $64, %rsp\npop %r12\npop %rbx\npop %rbp\nret\n"
	"made_end:\n");

typedef unsigned long function(unsigned long);

FRAME unsigned long nothing(unsigned long n) { return n; }

int main(int argc, char **argv)
{
	(void)argc;
	double each = atof(argv[1]);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	memcpy(code, made, made_end - made);
	void (*run)(unsigned long, function *) = (void (*)(unsigned long, function *))code;
	FOR_SECONDS(each) run(400000, nothing);
	FOR_SECONDS(each) run(1, burn);
	return 0;
}
