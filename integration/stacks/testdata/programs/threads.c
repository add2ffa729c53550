/* Burns CPU in a thread that has a name of its own; the first thread waits for it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static clock_t end;

__attribute__((noipa)) unsigned long burn(unsigned long n)
{
	volatile unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * i;
	return sum;
}

__attribute__((noipa)) void *worker(void *argument)
{
	unsigned long sum = (unsigned long)argument;
	while (clock() < end)
		sum += burn(20000000);
	return (void *)sum;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	end = clock() + (argc > 1 ? atof(argv[1]) : 1) * CLOCKS_PER_SEC;
	if (pthread_create(&thread, NULL, worker, NULL))
		return 1;
	pthread_setname_np(thread, "own-name");
	return pthread_join(thread, NULL);
}
