/*
 * Threads that go down one of two ways, rest for a moment at its end, and come back: no stack has functions of both.
 * restless [THREADS [MICROSECONDS]].
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define STEP(side, n, next)                                           \
	__attribute__((noinline)) static void side##_##n(void)        \
	{                                                             \
		next();                                               \
		__asm__ volatile("" ::: "memory");                    \
	}
#define WAY(side)                       \
	STEP(side, 1, rest)             \
	STEP(side, 2, side##_1)         \
	STEP(side, 3, side##_2)         \
	STEP(side, 4, side##_3)         \
	STEP(side, 5, side##_4)         \
	STEP(side, 6, side##_5)         \
	STEP(side, 7, side##_6)         \
	STEP(side, 8, side##_7)

static int moment = 20;

__attribute__((noinline)) static void rest(void)
{
	usleep(moment);
	__asm__ volatile("" ::: "memory");
}

WAY(left)
WAY(right)

static void *run(void *unused)
{
	for (;;) {
		left_8();
		right_8();
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 2)
		moment = atoi(argv[2]);
	for (int i = argc > 1 ? atoi(argv[1]) : 4; i > 0; i--)
		pthread_create(&thread, NULL, run, NULL);
	pause();
	return 0;
}
