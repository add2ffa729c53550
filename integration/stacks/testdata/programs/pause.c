// pause has 48 threads that wait for ever, one that answers, and one that looks at the clock every 100 microseconds, before any thread of normal
// priority. It prints the longest time between two looks, in nanoseconds, once for each line of its input, and begins
// anew.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static atomic_long longest;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

static void *look(void *unused)
{
	const struct timespec pause = {.tv_nsec = 100000};
	long last = now();

	for (;;) {
		nanosleep(&pause, NULL);
		long at = now(), most = atomic_load(&longest);
		while (at - last > most && !atomic_compare_exchange_weak(&longest, &most, at - last))
			;
		last = at;
	}
	return unused;
}

static int wait_below(int depth)
{
	if (!depth) {
		pause();
		return 0;
	}
	return wait_below(depth - 1) + 1;
}

static void *wait_for_ever(void *depth)
{
	return (void *)(long)wait_below((long)depth);
}

int main(void)
{
	const struct sched_param first = {.sched_priority = 1};
	pthread_t thread;
	char line[64];

	for (long i = 0; i < 48; i++)
		if (pthread_create(&thread, NULL, wait_for_ever, (void *)(i % 20)))
			return 1;
	if (pthread_create(&thread, NULL, look, NULL) || pthread_setschedparam(thread, SCHED_FIFO, &first))
		return 2;
	if (pthread_setname_np(thread, "clock") || pthread_setname_np(pthread_self(), "answers"))
		return 3;
	while (fgets(line, sizeof(line), stdin)) {
		printf("%ld\n", atomic_exchange(&longest, 0));
		fflush(stdout);
	}
}
