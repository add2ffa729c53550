/* memfd FILE ARGS...: runs a copy of a program that is in memory only. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv, char **environment)
{
	(void)argc;
	struct stat stat;
	int file = open(argv[1], O_RDONLY), memory = memfd_create("hwmemory", MFD_CLOEXEC);
	if (file < 0 || memory < 0 || fstat(file, &stat) || sendfile(memory, file, NULL, stat.st_size) != stat.st_size)
		return 1;
	/* Before Linux 6.14 its name is the number, which no other program has. */
	memory = fcntl(memory, F_DUPFD_CLOEXEC, 777);
	fexecve(memory, argv + 1, environment);
	return 1;
}
