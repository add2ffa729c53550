/*
 * Threads that wait in four ways, and two that keep one CPU busy between them, for argv[2] seconds, a second after this
 * one begins: who looks at threads now and then has seen it by then. Prints how long each
 * way took by its own clock, all threads together; for how long threads were queued for a CPU, as the kernel counts it;
 * and how long that is of all threads. argv[1] is a folder on a disk, where each thread writes a file of its own: those
 * that write the same one wait for each other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define WAY __attribute__((noinline)) static void
#define END __asm__ volatile("" ::: "memory")
#define THREADS 8

enum { SLEEP, EPOLL, LOCK, DISK, WAYS };

static const char *names[WAYS] = { "way_sleep", "way_epoll", "way_lock", "way_disk" };
static int epoll_fd, files[THREADS];
static pthread_mutex_t mutexes[THREADS];
static pthread_cond_t never[THREADS];
static double took[THREADS][WAYS];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

WAY way_sleep(int thread)
{
	(void)thread;
	usleep(30000);
	END;
}

WAY way_epoll(int thread)
{
	struct epoll_event e;

	(void)thread;
	epoll_wait(epoll_fd, &e, 1, 25);
	END;
}

WAY way_lock(int thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 20000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&mutexes[thread]);
	pthread_cond_timedwait(&never[thread], &mutexes[thread], &until);
	pthread_mutex_unlock(&mutexes[thread]);
	END;
}

WAY way_disk(int thread)
{
	static char block[1 << 18];
	double end = now() + 0.01;

	while (now() < end)
		if (pwrite(files[thread], block, sizeof(block), 0) < 0 || fdatasync(files[thread]))
			perror("write");
	END;
}

static void *waiter(void *arg)
{
	int thread = (int)(long)arg;
	void (*ways[WAYS])(int) = { way_sleep, way_epoll, way_lock, way_disk };

	for (;;)
		for (int i = 0; i < WAYS; i++) {
			double begun = now();

			ways[i](thread);
			took[thread][i] += now() - begun;
		}
	return 0;
}

/* Two of these share a CPU: each is queued for it half of the time. */
__attribute__((noinline)) static void *busy(void *cpus)
{
	sched_setaffinity(0, sizeof(cpu_set_t), cpus);
	for (;;)
		END;
	return 0;
}

/* Returns for how long the threads of this process were queued for a CPU, in seconds. */
static double queued(void)
{
	double sum = 0;
	glob_t files;

	glob("/proc/self/task/*/schedstat", 0, 0, &files);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		unsigned long long ran, waited;
		FILE *f = fopen(files.gl_pathv[i], "r");

		if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2)
			sum += waited / 1e9;
		if (f)
			fclose(f);
	}
	return sum;
}

int main(int argc, char **argv)
{
	static cpu_set_t allowed, one;
	pthread_t thread;
	double begun;
	int cpu = 0;

	if (argc < 3)
		return 2;
	sleep(1);
	begun = now();
	epoll_fd = epoll_create1(0);
	sched_getaffinity(0, sizeof(allowed), &allowed);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_SET(cpu, &one);
	for (long i = 0; i < THREADS; i++) {
		char name[4096];

		snprintf(name, sizeof(name), "%s/%ld", argv[1], i);
		files[i] = open(name, O_CREAT | O_RDWR, 0600);
		if (files[i] < 0)
			return 1;
		pthread_mutex_init(&mutexes[i], 0);
		pthread_cond_init(&never[i], 0);
		pthread_create(&thread, 0, waiter, (void *)i);
	}
	pthread_create(&thread, 0, busy, &one);
	pthread_create(&thread, 0, busy, &one);
	usleep(atof(argv[2]) * 1e6);
	printf("queued %.3f\nthreads %.3f\n", queued(), 1 + (THREADS + 3) * (now() - begun));
	for (int i = 0; i < WAYS; i++) {
		double sum = 0;

		for (int t = 0; t < THREADS; t++)
			sum += took[t][i];
		printf("%s %.3f\n", names[i], sum);
	}
	return 0;
}
