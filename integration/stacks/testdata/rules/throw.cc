// Throws through 40 frames all the time, so that most samples are in the C++ runtime with the exception in flight.
#include <unistd.h>

#include "work.h"

struct Overflow {};

extern "C" FRAME unsigned long deep(unsigned long n)
{
	if (n == 0)
		throw Overflow();
	return deep(n - 1) + 1;
}

extern "C" FRAME unsigned long turn(unsigned long n)
{
	try {
		return deep(n);
	} catch (const Overflow &) {
		return 0;
	}
}

int main(int argc, char **argv)
{
	if (argc < 2) { // once, to be looked at from here on
		__asm__("int3");
		_exit(turn(3) != 0);
	}
	unsigned long sum = 0;
	FOR_SECONDS(atof(argv[1]))
		for (int i = 0; i < 50; i++)
			sum += turn(39);
	return sum != 0;
}
