/* Threads that wait and threads that do not: waits [threads SLEEPING BUSY | switches | ring THREADS TURNS | faults]. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
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

static void start(void *(*function)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	if (pthread_create(&thread, &attributes, function, argument)) {
		perror("pthread_create");
		exit(1);
	}
}

static void start_some(int count, void *(*function)(void *))
{
	while (count-- > 0)
		start(function, NULL);
}

static int from[2], to[2];

static void *answers(void *unused)
{
	char c;

	while (read(to[0], &c, 1) == 1)
		write(from[1], &c, 1);
	return unused;
}

/* Each thread of a ring waits for its turn and gives it to the next one. There is one turn, so each is a switch. */
static sem_t *ring;
static long members;
static atomic_long turns;

static void *takes_turns(void *number)
{
	long me = (long)number;

	for (;;) {
		sem_wait(&ring[me]);
		if (atomic_fetch_sub(&turns, 1) <= 0)
			exit(0);
		sem_post(&ring[(me + 1) % members]);
	}
	return number;
}

static void run_ring(void)
{
	ring = calloc(members, sizeof(*ring));
	for (long i = 0; i < members; i++)
		sem_init(&ring[i], 0, i == 0);
	for (long i = 0; i < members; i++)
		start(takes_turns, (void *)i);
	pause();
}

int main(int argc, char **argv)
{
	const size_t bytes = 64 << 20;
	char c = 0;

	if (argc == 1) {
		works(NULL);
	} else if (argc == 4 && !strcmp(argv[1], "threads")) {
		start_some(atoi(argv[2]), sleeps);
		start_some(atoi(argv[3]), works);
		pause();
	} else if (argc == 2 && !strcmp(argv[1], "switches")) {
		if (pipe(from) || pipe(to))
			return 1;
		start(answers, NULL);
		while (write(to[1], &c, 1) == 1 && read(from[0], &c, 1) == 1)
			;
	} else if (argc == 4 && !strcmp(argv[1], "ring")) {
		members = atol(argv[2]);
		turns = atol(argv[3]);
		run_ring();
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
	fprintf(stderr, "usage: waits [threads SLEEPING BUSY | switches | ring THREADS TURNS | faults]\n");
	return 2;
}
