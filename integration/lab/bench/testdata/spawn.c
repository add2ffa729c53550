/*
 * spawn RATE SECONDS PROGRAM [ARGUMENT...] - starts RATE processes a second, at
 * random distances, so that none keeps step with a sampling clock. Prints how many
 * have ended well.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void sleep_until(double when)
{
	struct timespec t = { .tv_sec = (time_t)when, .tv_nsec = (long)((when - (time_t)when) * 1e9) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int reap(int options)
{
	int well = 0, status;

	while (waitpid(-1, &status, options) > 0)
		well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	return well;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: spawn RATE SECONDS PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	double distance = 1 / atof(argv[1]), next = now(), end = next + atof(argv[2]);
	int well = 0;
	pid_t pid;

	srand(1);
	while (next < end) {
		sleep_until(next);
		if (posix_spawn(&pid, argv[3], NULL, NULL, argv + 3, environ))
			return 1;
		next += distance * (0.5 + (double)rand() / RAND_MAX);
		well += reap(WNOHANG);
	}
	printf("%d\n", well + reap(0));
	return 0;
}
