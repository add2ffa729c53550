/*
 * A fiber as Boost.Context and PHP make it: the first function of its stack would return to code that ends the process,
 * which no call precedes. Nothing of that has CFI.
 */
#include <unistd.h>

#include "work.h"

static char stack[1 << 16] __attribute__((aligned(16)));
static double seconds;

FRAME void fiber(void)
{
	unsigned long sum = 0;
	FOR_SECONDS(seconds) sum += burn(100000);
	_exit(sum == 1);
}

void make_fiber(void (*function)(void), char *top);
__asm__(".text\n.globl make_fiber\n.type make_fiber, @function\n"
	"make_fiber:\n"
	"	mov %rsi, %rsp\n"
	"	lea 2f(%rip), %rbp\n"
	"	mov %rdi, %rbx\n"
	"	lea 1f(%rip), %rax\n"
	"	jmp *%rax\n"
	"1:	push %rbp\n"
	"	jmp *%rbx\n"
	"2:	xor %rdi, %rdi\n"
	"	call _exit@PLT\n"
	"	hlt\n"
	".size make_fiber, . - make_fiber\n");

int main(int argc, char **argv)
{
	(void)argc;
	seconds = atof(argv[1]);
	make_fiber(fiber, stack + sizeof stack / 2); /* what lies above is zero */
	return 1;
}
