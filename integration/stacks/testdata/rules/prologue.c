/*
 * Calls functions that do little but save and restore registers, so that most samples are in the middle of it: pushes,
 * room on the stack, a frame pointer, a realigned stack, an early return before anything is saved.
 */
#include <alloca.h>

#include "work.h"

FRAME unsigned long leaf(unsigned long n) { return n * 3; }

FRAME unsigned long pushes(unsigned long n)
{
	unsigned long a = leaf(n), b = leaf(n + 1), c = leaf(n + 2), d = leaf(n + 3), e = leaf(n + 4);
	return a + b + c + d + e + leaf(a ^ b ^ c ^ d ^ e);
}

FRAME unsigned long room(unsigned long n)
{
	volatile unsigned long words[100];
	words[n % 100] = n;
	return leaf(words[n % 100]) + n;
}

FRAME unsigned long pointer(unsigned long n)
{
	volatile char *some = alloca((n & 63) + 1);
	some[0] = 1;
	return leaf(n) + some[0];
}

FRAME unsigned long realigned(unsigned long n)
{
	_Alignas(64) volatile char line[64];
	volatile char *some = alloca((n & 63) + 1);
	line[0] = some[0] = 1;
	return leaf(n) + line[0] + some[0];
}

FRAME unsigned long early(unsigned long n)
{
	if (n & 1)
		return n;
	unsigned long a = leaf(n), b = leaf(a);
	return leaf(a + b) + a + b;
}

static unsigned long (*const functions[])(unsigned long) = {pushes, room, pointer, realigned, early};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

FRAME unsigned long drive(unsigned long (*function)(unsigned long), unsigned long n)
{
	unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += function(i);
	return sum;
}

int main(int argc, char **argv)
{
	(void)argc;
	unsigned long sum = 0;
	for (int i = 0; i < FUNCTIONS; i++)
		FOR_SECONDS(atof(argv[1])) sum += drive(functions[i], 100000);
	return sum == 42;
}
