/*
 * app SECONDS: works a quarter of the time. Builds that differ in PREFIX alone have the same code at the same
 * addresses, and differ in the names of their functions and in their build IDs.
 */
#include <stdlib.h>
#include <time.h>

#include "app.h"

FRAME NAME(leaf)(long rounds)
{
	volatile unsigned long sum = 0;
	for (long i = 0; i < rounds; i++)
		sum += i;
	return sum;
}

FRAME NAME(middle)(long rounds) { return NAME(library)(NAME(leaf), rounds) + 1; }
FRAME NAME(outer)(long rounds) { return NAME(middle)(rounds) + 1; }

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double end = now(CLOCK_MONOTONIC) + (argc > 1 ? atoi(argv[1]) : 1);
	while (now(CLOCK_MONOTONIC) < end) {
		double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		NAME(outer)(10 * 1000 * 1000);
		cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		struct timespec rest = {0, (long)(cpu < 0.3 ? 3 * cpu * 1e9 : 9e8)};
		nanosleep(&rest, NULL);
	}
}
