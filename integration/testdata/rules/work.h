/* What the programs here share: a function that burns CPU and the end of their time, in seconds from the start. */
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

static inline time_t deadline(char **argv) { return time(NULL) + atol(argv[1]); }
