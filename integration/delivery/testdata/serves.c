// A server that forks a child for each connection, as PostgreSQL does.
//   NAME serve CHILDREN MS: forks that number of children, one after the other, each of which computes for MS; at its
//       end prints the CPU time of the children, in ns. It begins when a line comes in.
//   NAME exec PROGRAM MS: forks a child that computes for MS, then executes PROGRAM work MS, and prints as above.
//   NAME work MS: computes for MS of CPU time.
//   NAME as PID PROGRAM MS: runs PROGRAM work MS with that PID, and waits for it.
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long sink;

static long used(void)
{
	struct timespec at;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return at.tv_sec * 1000000000L + at.tv_nsec;
}

#define COMPUTES(name)                                          \
	__attribute__((noinline)) static void name(long ms)    \
	{                                                       \
		for (long end = used() + ms * 1000000; used() < end;) \
			for (int i = 0; i < 100000; i++)        \
				sink += i;                      \
	}
COMPUTES(in_child)
COMPUTES(in_program)

static long of_child(pid_t pid)
{
	struct rusage usage;
	int status;
	if (wait4(pid, &status, 0, &usage) != pid || status)
		exit(3);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000L +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000L;
}

int main(int argc, char **argv)
{
	long sum = 0;
	if (!strcmp(argv[1], "work")) {
		in_program(atol(argv[2]));
		return 0;
	}
	if (!strcmp(argv[1], "as")) {
		pid_t wanted = atol(argv[2]);
		struct clone_args how = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&wanted, .set_tid_size = 1 };
		pid_t pid = syscall(SYS_clone3, &how, sizeof(how));
		if (pid < 0)
			return perror("clone3"), 1;
		if (!pid) {
			execl(argv[3], argv[3], "work", argv[4], (char *)0);
			_exit(2);
		}
		printf("%ld\n", of_child(pid));
		return 0;
	}
	getchar();
	int serves = !strcmp(argv[1], "serve");
	for (int i = 0; i < (serves ? atoi(argv[2]) : 1); i++) {
		pid_t pid = fork();
		if (!pid) {
			in_child(atol(argv[3]));
			if (!serves)
				execl(argv[2], argv[2], "work", argv[3], (char *)0);
			_exit(!serves);
		}
		sum += of_child(pid);
	}
	printf("%ld\n", sum);
	fflush(stdout);
	getchar();
	return 0;
}
