/* Burns CPU at the end of a few calls. Built in many ways: static, static-pie, not PIE, stripped, with frame pointers. */
#include <stdlib.h>
#include <time.h>

#define FRAME __attribute__((noipa)) unsigned long

FRAME burn(unsigned long n)
{
	volatile unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * i;
	return sum;
}

FRAME third(unsigned long n) { return burn(n) + 1; }
FRAME second(unsigned long n) { return third(n) + 1; }
FRAME first(unsigned long n) { return second(n) + 1; }

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
	unsigned long sum = 0;
	while (time(NULL) < end)
		sum += first(20000000);
	return sum == 42;
}
