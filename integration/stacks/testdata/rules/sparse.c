/*
 * Below a frame of ROOM bytes of the stack, which hold nothing but zeros, calls functions that are far apart,
 * each once and for as long as a few samples take. With -DFILL every FILL-th word of the frame is no zero; with -DTHREAD it is
 * a thread's.
 */
#include <pthread.h>

#include "work.h"

enum { WORDS = ROOM / sizeof(long), PAGE = 4096 / sizeof(long) };

#define FAR __attribute__((noipa, aligned(16384)))
#define LEAF(n) \
	FAR unsigned long leaf##n(unsigned long sum) \
	{ \
		FOR_SECONDS(0.02) sum += burn(100000); \
		return sum; \
	}
#define TEN(of, n) of(n##0) of(n##1) of(n##2) of(n##3) of(n##4) of(n##5) of(n##6) of(n##7) of(n##8) of(n##9)
#define HUNDRED(of) TEN(of, 1) TEN(of, 2) TEN(of, 3) TEN(of, 4) TEN(of, 5) TEN(of, 6) TEN(of, 7) TEN(of, 8) TEN(of, 9)

HUNDRED(LEAF)

#define NAME(n) leaf##n,
static unsigned long (*const leaves[])(unsigned long) = { HUNDRED(NAME) };
enum { LEAVES = sizeof(leaves) / sizeof(*leaves) };

static double seconds;

FRAME unsigned long roomy(void)
{
	volatile long room[WORDS];
	unsigned long sum = 0;

	for (long i = 0; i < WORDS; i += PAGE)
		room[i] = 0;
#ifdef FILL
	for (long i = 0; i < WORDS; i += FILL)
		room[i] = i;
#endif
	unsigned i = 0;
	FOR_SECONDS(seconds) {
		sum += leaves[i % LEAVES](i);
		i++;
		nanosleep(&(struct timespec){ .tv_nsec = 25000000 }, NULL);
	}
	return sum + room[sum % WORDS];
}

FRAME void *worker(void *argument)
{
	(void)argument;
	return (void *)roomy();
}

int main(int argc, char **argv)
{
	(void)argc;
	seconds = atof(argv[1]);
#ifdef THREAD
	pthread_t thread;
	return pthread_create(&thread, NULL, worker, NULL) || pthread_join(thread, NULL);
#else
	return worker(NULL) == argv;
#endif
}
