// PROGRAM HOW SECONDS MILLISECONDS OTHER: runs for a while, then starts the other program as HOW says, which starts this
// one. NAME(x) begins with the letters of the program.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

#ifdef PAD
__attribute__((noinline)) void NAME(pad)(void)
{
	for (volatile int i = 0; i < 100; i++)
		;
}
#endif

__attribute__((noinline)) void NAME(burn)(void)
{
	for (volatile int i = 0; i < 20000; i++)
		;
}

__attribute__((noinline)) void NAME(work)(void)
{
#ifdef PAD
	char room[72];
	__asm__ volatile("" ::"r"(room) : "memory");
#endif
	NAME(burn)();
	__asm__ volatile("");
}

__attribute__((noinline)) void NAME(turn)(double seconds)
{
	for (double end = now() + seconds; now() < end;)
		NAME(work)();
}

static char **arguments;

// start runs the other program in the place of this one.
static void *start(void *unused)
{
	char *other[] = { arguments[4], arguments[1], arguments[2], arguments[3], arguments[0], NULL };

	execv(other[0], other);
	perror("execv");
	_exit(1);
	return unused;
}

int main(int argc, char **argv)
{
	const char *how = argv[1];
	double end = atof(argv[2]), seconds = atof(argv[3]) / 1e3;
	pthread_t thread;

	arguments = argv;
	if (!strcmp(how, "fixed") && !(personality(-1) & ADDR_NO_RANDOMIZE)) {
		personality(personality(-1) | ADDR_NO_RANDOMIZE);
		execv(argv[0], argv);
	}
	if (!strcmp(how, "once")) {
		NAME(turn)(seconds);
		return 0;
	}
	NAME(turn)(seconds);
	if (now() > end)
		return 0;
	if (!strcmp(how, "thread") && !pthread_create(&thread, NULL, start, NULL))
		pthread_join(thread, NULL);
	char *once[] = { argv[4], "once", argv[2], argv[3], argv[0], NULL };
	while ((!strcmp(how, "fork") || !strcmp(how, "vfork")) && now() < end) {
		pid_t child = !strcmp(how, "vfork") ? vfork() : fork();
		if (!child) {
			if (!strcmp(how, "fork"))
				NAME(turn)(seconds / 4);
			execv(once[0], once);
			_exit(1);
		}
		NAME(turn)(seconds / 4);
		waitpid(child, NULL, 0);
	}
	if (now() < end)
		start(NULL);
	return 0;
}
