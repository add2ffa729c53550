/* For each number that it reads, calls malloc and free so often, and says how much CPU time both take, in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *volatile block;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(void)
{
	int pairs;

	while (scanf("%d", &pairs) == 1) {
		double begun = now();

		for (int i = 0; i < pairs; i++) {
			block = malloc(64);
			free(block);
		}
		printf("%.1f\n", (now() - begun) / pairs);
		fflush(stdout);
	}
	return 0;
}
