// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Waits for what is known to end it: a thread for a lock, which another thread of the process has; one for a pipe, to
 * which another process writes; one for time to pass. The argument is for how many seconds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HELD = 100000, FREE = 20000, APART = 10000 }; /* us */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static time_t end;

static void *own(void *arg)
{
	prctl(PR_SET_NAME, "hwowner");
	while (time(NULL) < end) {
		pthread_mutex_lock(&lock);
		usleep(HELD);
		pthread_mutex_unlock(&lock);
		usleep(FREE);
	}
	return arg;
}

__attribute__((noinline)) static void *way_lock(void *arg)
{
	prctl(PR_SET_NAME, "hwwaiter");
	while (time(NULL) < end) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		usleep(APART);
	}
	return arg;
}

__attribute__((noinline)) static void *way_pipe(void *arg)
{
	char byte;

	prctl(PR_SET_NAME, "hwreader");
	while (read(ends[0], &byte, 1) == 1)
		;
	return arg;
}

__attribute__((noinline)) static void *way_sleep(void *arg)
{
	prctl(PR_SET_NAME, "hwsleeper");
	while (time(NULL) < end)
		usleep(HELD);
	return arg;
}

static void write_now_and_then(void)
{
	prctl(PR_SET_NAME, "hwwriter");
	while (time(NULL) < end) {
		usleep(HELD);
		if (write(ends[1], "x", 1) != 1)
			break;
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	void *(*const ways[])(void *) = {own, way_lock, way_pipe, way_sleep};
	enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
	pthread_t threads[WAYS];

	if (argc != 2 || pipe(ends))
		return 2;
	sleep(1); /* who looks at threads now and then has seen this one by then */
	end = time(NULL) + atoi(argv[1]);
	pid_t writer = fork();
	if (!writer)
		write_now_and_then();
	close(ends[1]); /* the reader ends with the writer */
	for (int i = 0; i < WAYS; i++)
		pthread_create(&threads[i], NULL, ways[i], NULL);
	for (int i = 0; i < WAYS; i++)
		pthread_join(threads[i], NULL);
	return waitpid(writer, NULL, 0) != writer;
}
