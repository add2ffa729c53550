/* Calls a function whose first instruction kernels do not do themselves at a uprobe, until standard input ends. */
#include <poll.h>

__asm__(".globl step\n.type step, @function\nstep:\n\t.cfi_startproc\n\tlea 1(%rdi), %rax\n\tret\n\t.cfi_endproc\n"
	".size step, .-step\n");
unsigned long step(unsigned long n);

int main(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	unsigned long n = 0;

	while (poll(&in, 1, 0) == 0)
		for (int i = 0; i < 10000; i++)
			n = step(n);
	return n == 1;
}
