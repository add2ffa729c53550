/* Forks children that run no other program: what is known of the parent holds for them. */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

FRAME unsigned long child(unsigned long n) { return burn(n) + 1; }

FRAME int parent(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(child(1000000) == 42);
	return waitpid(pid, NULL, 0) == pid;
}

int main(int argc, char **argv)
{
	(void)argc;
	time_t end = deadline(argv);
	int all = 1;
	while (time(NULL) < end)
		all &= parent();
	return !all;
}
