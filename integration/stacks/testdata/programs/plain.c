/* Burns CPU at the end of a few calls, for a number of seconds of CPU time. Built in many ways: static, static-pie, not PIE, stripped, with frame pointers. */
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

__attribute__((noipa)) double cpu_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	unsigned long sum = 0;
	while (cpu_time() < seconds)
		sum += first(2000000);
	return sum == 42;
}
