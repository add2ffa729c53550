/* Forks children that run no other program: what is known of the parent holds for them. */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define CHILDREN 50

FRAME unsigned long child(double seconds)
{
	unsigned long sum = 0;
	FOR_SECONDS(seconds) sum += burn(100000);
	return sum;
}

FRAME int parent(double seconds)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(child(seconds) == 42);
	return waitpid(pid, NULL, 0) == pid;
}

int main(int argc, char **argv)
{
	(void)argc;
	int all = 1;
	for (int i = 0; i < CHILDREN; i++)
		all &= parent(atof(argv[1]) / CHILDREN);
	return !all;
}
