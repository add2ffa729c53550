/*
 * Waits for a byte, calls as often as its argument says a function that keeps something below the stack pointer, and
 * prints how often that was changed. In the function is a nop of five bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

long changed(void);
__asm__(".text\n"
	".globl changed\n"
	".type changed, @function\n"
	"changed:\n"
	"	movq $4660, -8(%rsp)\n"  /* 9 bytes */
	"	movq $4660, -64(%rsp)\n" /* 9 bytes */
	"	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
	"	movq -8(%rsp), %rax\n"
	"	xorq $4660, %rax\n"
	"	movq -64(%rsp), %rdx\n"
	"	xorq $4660, %rdx\n"
	"	orq %rdx, %rax\n"
	"	ret\n"
	".size changed, . - changed\n");

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 0, bad = 0;
	char c;

	if (read(0, &c, 1) != 1)
		return 1;
	for (int i = 0; i < calls; i++)
		bad += changed() != 0;
	printf("%d\n", bad);
	return bad != 0;
}
