// Touches memory in two functions, and reads a file page by page in a third, if one is given. Each prints its name and
// how many page faults, minor and major, getrusage(2) has counted meanwhile. The program ends with its input.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1 << 20)
#define PAGE 4096

static void print_faults(const char *name, void (*of)(void))
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	of();
	getrusage(RUSAGE_SELF, &after);
	printf("%s %ld %ld\n", name, after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt);
	fflush(stdout);
}

static __attribute__((noinline)) void touch(long bytes)
{
	volatile char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (long i = 0; i < bytes; i += PAGE)
		at[i] = 1;
}

static __attribute__((noinline)) void growing(void)
{
	touch(96 * MIB);
	asm volatile("");
}

static __attribute__((noinline)) void growing_less(void)
{
	touch(32 * MIB);
	asm volatile("");
}

static const char *file;

static __attribute__((noinline)) void reading(void)
{
	struct stat s;
	int fd = open(file, O_RDONLY);
	volatile char *at;
	char sum = 0;

	if (fd < 0 || fstat(fd, &s) || fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		exit(1);
	at = mmap(0, s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	madvise((void *)at, s.st_size, MADV_RANDOM); /* no page comes with another */
	for (long i = 0; i < s.st_size; i += PAGE)
		sum += at[i];
	asm volatile("" : : "r"(sum));
}

int main(int argc, char **argv)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page is one page fault */
	if (argc > 1) {
		file = argv[1];
		print_faults("reading", reading);
		return 0;
	}
	print_faults("growing", growing);
	print_faults("growing_less", growing_less);
	getchar();
	return 0;
}
