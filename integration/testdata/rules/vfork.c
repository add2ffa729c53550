/* Calls vfork all the time: in it the return address is in a register, in the parent as in the child. */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

FRAME int spawn(void)
{
	pid_t child = vfork();
	if (child == 0) {
		burn(30000);
		_exit(0);
	}
	return waitpid(child, NULL, 0) == child;
}

int main(int argc, char **argv)
{
	(void)argc;
	time_t end = deadline(argv);
	int all = 1;
	while (time(NULL) < end)
		all &= spawn();
	return !all;
}
