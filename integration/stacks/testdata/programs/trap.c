/*
 * Burns CPU in the handler of a fault in the very first instruction of a function: the address before it belongs to
 * another one, so the interrupted address must not be taken for a return address.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

void trap(void);
__asm__(".text\n"
	".globl before, trap\n"
	".type before, @function\n"
	"before: .cfi_startproc\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size before, . - before\n"
	".type trap, @function\n"
	"trap:	.cfi_startproc\n"
	"	ud2\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size trap, . - trap\n");

__attribute__((noipa)) unsigned long burn(unsigned long n)
{
	volatile unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * i;
	return sum;
}

__attribute__((noipa)) void on_fault(int number, siginfo_t *info, void *context)
{
	(void)info;
	burn(100000000ul + number);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; /* over the ud2 */
}

int main(int argc, char **argv)
{
	clock_t end = clock() + (argc > 1 ? atof(argv[1]) : 1) * CLOCKS_PER_SEC;
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGILL, &action, NULL);
	while (clock() < end)
		trap();
	return 0;
}
