/* Leaks at one function, and allocates much more at another that frees it. Says what is in use in its own words. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEAKED = 40 << 20, BLOCK = 1000, CHURNED = 50 << 20, LIVE = 64 };

static void *volatile sink;
static volatile size_t too_large = ~(size_t)0 / 4;

/* LEAKED bytes, by all functions that C has for it. */
__attribute__((noinline)) void leak(void)
{
	for (long i = 0; i < LEAKED / BLOCK; i++) {
		void *aligned = 0;

		switch (i % 4) {
		case 0:
			sink = malloc(BLOCK);
			break;
		case 1:
			sink = calloc(BLOCK / 8, 8);
			break;
		case 2:
			sink = realloc(malloc(BLOCK / 2), BLOCK);
			if (realloc(sink, too_large)) /* it fails, and the block stays */
				exit(1);
			break;
		case 3:
			if (posix_memalign(&aligned, 64, BLOCK))
				exit(1);
			sink = aligned;
		}
	}
}

/* CHURNED bytes, of which few are in use at a time, and none in the end. */
__attribute__((noinline)) void churn(void)
{
	void *live[LIVE] = {0};

	for (long i = 0; i < CHURNED / (BLOCK * 4); i++) {
		free(live[i % LIVE]);
		live[i % LIVE] = realloc(malloc(BLOCK * 4), BLOCK * 5);
	}
	for (int i = 0; i < LIVE; i++)
		free(live[i]);
}

static void *churn_thread(void *unused)
{
	churn();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char c;

	(void)argv;
	if (argc > 1 && read(0, &c, 1) != 1)
		return 1;
	pthread_create(&thread, 0, churn_thread, 0);
	churn();
	leak();
	pthread_join(thread, 0);
	struct mallinfo2 m = mallinfo2();
	printf("%zu bytes in use\n", m.uordblks + m.hblkhd);
	fflush(stdout);
	if (argc > 1)
		pause();
	return 0;
}
