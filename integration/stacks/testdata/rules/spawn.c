/* Makes processes all the time, by the system call clone3, in which the parent copies and waits. */
#define _GNU_SOURCE
#include <spawn.h>
#include <sys/wait.h>

#include "work.h"

extern char **environ;

FRAME int turn(void)
{
	char *none[] = { (char *)"/nonexistent", 0 };
	pid_t child;

	return posix_spawn(&child, none[0], 0, 0, none, environ) != 0;
}

int main(int argc, char **argv)
{
	(void)argc;
	int all = 1;
	FOR_SECONDS(atof(argv[1])) all &= turn();
	return !all;
}
