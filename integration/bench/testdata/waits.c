/* Threads that wait and threads that do not: waits threads SLEEPING BUSY | switches | faults. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *sleeps(void *unused)
{
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&never, &mutex);
	return unused;
}

static void *works(void *unused)
{
	for (volatile unsigned long n = 0;; n++)
		;
	return unused;
}

static void start(int count, void *(*function)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	while (count-- > 0) {
		if (pthread_create(&thread, &attributes, function, NULL)) {
			perror("pthread_create");
			exit(1);
		}
	}
}

static int from[2], to[2];

static void *answers(void *unused)
{
	char c;

	while (read(to[0], &c, 1) == 1)
		write(from[1], &c, 1);
	return unused;
}

int main(int argc, char **argv)
{
	const size_t bytes = 64 << 20;
	char c = 0;

	if (argc == 4 && !strcmp(argv[1], "threads")) {
		start(atoi(argv[2]), sleeps);
		start(atoi(argv[3]), works);
		pause();
	} else if (argc == 2 && !strcmp(argv[1], "switches")) {
		if (pipe(from) || pipe(to))
			return 1;
		start(1, answers);
		while (write(to[1], &c, 1) == 1 && read(from[0], &c, 1) == 1)
			;
	} else if (argc == 2 && !strcmp(argv[1], "faults")) {
		for (;;) {
			char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (p == MAP_FAILED)
				return 1;
			for (size_t at = 0; at < bytes; at += 4096)
				p[at] = 1;
			munmap(p, bytes);
		}
	}
	fprintf(stderr, "usage: waits threads SLEEPING BUSY | switches | faults\n");
	return 2;
}
