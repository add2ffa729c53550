/* depth SECONDS N: burns CPU below N calls of down(). */
#include "work.h"

FRAME unsigned long down(unsigned long n) { return (n > 1 ? down(n - 1) : burn(30000000)) + 1; }

int main(int argc, char **argv)
{
	(void)argc;
	time_t end = deadline(argv);
	unsigned long sum = 0;
	while (time(NULL) < end)
		sum += down(atol(argv[2]));
	return sum == 42;
}
