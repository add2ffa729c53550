/* depth SECONDS N: burns CPU below N calls of down(). */
#include "work.h"

FRAME unsigned long down(unsigned long n) { return (n > 1 ? down(n - 1) : burn(3000000)) + 1; }

int main(int argc, char **argv)
{
	(void)argc;
	unsigned long sum = 0;
	FOR_SECONDS(atof(argv[1])) sum += down(atol(argv[2]));
	return sum == 42;
}
