/* For each byte that it reads, says how long a malloc and a free take, in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 100000 };

static void *volatile block;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(void)
{
	char c;

	while (read(0, &c, 1) == 1) {
		double begun = now();

		for (int i = 0; i < PAIRS; i++) {
			block = malloc(64);
			free(block);
		}
		printf("%.1f\n", (now() - begun) / PAIRS);
		fflush(stdout);
	}
	return 0;
}
