/* A coroutine on a stack of its own, which it leaves and enters again, by makecontext and swapcontext. */
#include <ucontext.h>

#include "work.h"

static ucontext_t outside, inside;
static char stack[65536];
static unsigned long sum;

FRAME void step(void) { sum += burn(100000) & 1; }

FRAME void coroutine(void)
{
	for (;;) {
		step();
		swapcontext(&inside, &outside);
	}
}

FRAME int turn(void) { return swapcontext(&outside, &inside); }

int main(int argc, char **argv)
{
	(void)argc;
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = sizeof stack;
	makecontext(&inside, coroutine, 0);
	FOR_SECONDS(atof(argv[1]))
		if (turn())
			return 1;
	return 0;
}
