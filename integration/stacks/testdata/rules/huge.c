/* Frames of 1 MiB and 1 GiB, and of 3 GiB with -DBEYOND_31_BITS, on a stack that is hardly touched. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "work.h"

#define HUGE(this, next, bytes) \
	FRAME unsigned long this(unsigned long n) \
	{ \
		volatile char room[bytes]; \
		room[n % 8] = 1; \
		unsigned long r = next(n); \
		return r + room[n % 8]; \
	}

#ifdef BEYOND_31_BITS
HUGE(largest, burn, 3ul << 30)
#else
#define largest burn
#endif
HUGE(larger, largest, 1ul << 30)
HUGE(large, larger, 1ul << 20)

static double seconds;

FRAME void *worker(void *argument)
{
	unsigned long sum = (unsigned long)argument;
	FOR_SECONDS(seconds) sum += large(200000);
	return (void *)sum;
}

int main(int argc, char **argv)
{
	(void)argc;
	size_t size = 6ul << 30;
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;
	seconds = atof(argv[1]);
	if (stack == MAP_FAILED || pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, size) ||
	    pthread_create(&thread, &attributes, worker, NULL))
		return 1;
	return pthread_join(thread, NULL);
}
