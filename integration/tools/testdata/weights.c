// weights N runs thirty functions N times, each of which takes as much longer as its number says.
#include <stdlib.h>

static volatile unsigned sink;

#define STEP(number) \
	__attribute__((noinline)) void step##number(unsigned seed) \
	{ \
		unsigned sum = seed; \
		for (unsigned i = 0; i < number * 1000; i++) \
			sum = sum * 1664525 + 1013904223; \
		sink = sum; \
	}
#define CALL(number) step##number(i);
#define ALL(of) \
	of(1) of(2) of(3) of(4) of(5) of(6) of(7) of(8) of(9) of(10) \
	of(11) of(12) of(13) of(14) of(15) of(16) of(17) of(18) of(19) of(20) \
	of(21) of(22) of(23) of(24) of(25) of(26) of(27) of(28) of(29) of(30)

ALL(STEP)

__attribute__((noinline)) static void round_of_steps(unsigned i)
{
	ALL(CALL)
}

int main(int count, char **arguments)
{
	unsigned rounds = count > 1 ? atoi(arguments[1]) : 1000;

	for (unsigned i = 0; i < rounds; i++)
		round_of_steps(i);
}
