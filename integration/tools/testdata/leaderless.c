// The first thread ends after some ms, the first argument; another goes on for some seconds, the second one.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;
static double until;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

__attribute__((noinline)) void hwinner(void)
{
	for (int i = 0; i < 20000; i++)
		sink += i;
	sink++;
}

__attribute__((noinline)) void hwouter(void)
{
	hwinner();
	sink++;
}

static void *work(void *unused)
{
	(void)unused;
	while (now() < until)
		hwouter();
	exit(0);
}

int main(int argc, char **argv)
{
	(void)argc;
	until = now() + atof(argv[2]);
	pthread_t thread;
	pthread_create(&thread, 0, work, 0);
	usleep(1000 * atoi(argv[1]));
	pthread_exit(0);
}
