/*
 * Calls vfork all the time: in it the return address is in a register, in the parent as in the child. First the children do nothing, and the time is
 * vfork's; then it is theirs.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define CHILDREN 50

FRAME int spawn(double seconds)
{
	pid_t child = vfork();
	if (child == 0) {
		FOR_SECONDS(seconds) burn(100000);
		_exit(0);
	}
	return waitpid(child, NULL, 0) == child;
}

int main(int argc, char **argv)
{
	(void)argc;
	double each = atof(argv[1]);
	int all = 1;
	FOR_SECONDS(each) all &= spawn(0);
	for (int i = 0; i < CHILDREN; i++)
		all &= spawn(each / CHILDREN);
	return !all;
}
