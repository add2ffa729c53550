// hog memory: touches memory until it is killed. hog cpu SECONDS: is busy for so long, and prints for how many seconds
// of these it had no CPU. It waits before and after, so that who looks at threads now and then sees all of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static __attribute__((noinline)) void hog_memory(void)
{
	const size_t bytes = 1 << 20;

	for (;;) {
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memset(p, 1, bytes);
	}
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static __attribute__((noinline)) void hog_cpu(double for_seconds)
{
	double begun = seconds(CLOCK_MONOTONIC), ran = seconds(CLOCK_PROCESS_CPUTIME_ID), took;

	while ((took = seconds(CLOCK_MONOTONIC) - begun) < for_seconds)
		;
	printf("%f\n", took - (seconds(CLOCK_PROCESS_CPUTIME_ID) - ran));
}

int main(int argc, char **argv)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page is one page fault */
	if (argc > 2) {
		sleep(1);
		hog_cpu(atof(argv[2]));
		sleep(1);
	} else {
		hog_memory();
	}
	return 0;
}
