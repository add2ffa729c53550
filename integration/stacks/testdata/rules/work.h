/*
 * What the programs here share. Each kind of work has as much CPU time as the first argument says, in seconds: the clock of the process ends it, so that
 * it does not depend on how fast a CPU runs one loop and how fast another, or on what else runs.
 */
#pragma once
#include <stdlib.h>
#include <time.h>

/* A frame of its own: not inlined, cloned, folded with another. The callers use what it returns, so no call is a jump. */
#define FRAME __attribute__((noipa))

FRAME unsigned long burn(unsigned long n)
{
	volatile unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * i;
	return sum;
}

/* The CPU time of the process so far, in seconds. */
FRAME double cpu_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Repeats a statement until the process has used n seconds of CPU time. A turn should be short: a few milliseconds. */
#define FOR_SECONDS(n) for (double until = cpu_time() + (n); cpu_time() < until;)
