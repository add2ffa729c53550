/*
 * Burns CPU in a signal handler, which the kernel puts on top of whatever ran: here a function that has just pushed its
 * registers and made room on the stack. With ALTERNATE, the handler has a stack of its own.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char alternate[65536];

__attribute__((noipa)) unsigned long burn(unsigned long n)
{
	volatile unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * i;
	return sum;
}

__attribute__((noipa)) void on_signal(int number) { burn(100000000ul + number); }

__attribute__((noipa)) unsigned long interrupted(volatile unsigned long *n)
{
	volatile unsigned long room[20] = {0};
	room[*n % 20] = kill(getpid(), SIGUSR1);
	return room[3] + *n;
}

int main(int argc, char **argv)
{
	clock_t end = clock() + (argc > 1 ? atof(argv[1]) : 1) * CLOCKS_PER_SEC;
	struct sigaction action = {.sa_handler = on_signal};
	unsigned long n = 7;
#ifdef ALTERNATE
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
	sigaltstack(&stack, NULL);
	action.sa_flags = SA_ONSTACK;
#else
	(void)alternate;
#endif
	sigaction(SIGUSR1, &action, NULL);
	while (clock() < end)
		n += interrupted(&n);
	return n == 42;
}
