/* Asks for the time all the time: most of it in the vdso, which is in no file. */
#include <stdlib.h>
#include <time.h>

__attribute__((noipa)) long ask(void)
{
	struct timespec now;
	long sum = 0;
	for (int i = 0; i < 1000000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += now.tv_nsec;
	}
	return sum;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
	long sum = 0;
	while (time(NULL) < end)
		sum += ask();
	return sum == 42;
}
