/* Two threads that wait: one in a signal handler on a deep stack, below a function of the C library that calls back; one at the start of its thread. Built for 32 bits. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define FRAME __attribute__((noipa))

FRAME static void handle(int number)
{
	while (number)
		pause();
}

static int compare(const void *a, const void *b)
{
	raise(SIGUSR1);
	return *(const int *)a - *(const int *)b;
}

FRAME static int down(int depth)
{
	volatile int frame[4] = {depth, 2, 1, 0};

	if (depth)
		return down(depth - 1) + frame[depth % 4];
	qsort((int *)frame, 4, sizeof(*frame), compare);
	return frame[0];
}

static void *wait(void *none)
{
	pause();
	return none;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, wait, 0);
	signal(SIGUSR1, handle);
	return down(900);
}
