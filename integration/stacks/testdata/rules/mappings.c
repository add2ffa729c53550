/* Maps the page that holds island() 12,000 times and calls every copy, again and again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include "work.h"

#define COPIES 12000

typedef unsigned long function(unsigned long);
typedef unsigned long island_function(function *, unsigned long);

extern char __executable_start[];

/* Alone in its page, and the same wherever it is. */
__attribute__((noipa, section(".island"), aligned(4096))) unsigned long island(function *f, unsigned long n) { return f(n) + 1; }

FRAME unsigned long call(island_function *copy, unsigned long n) { return copy(burn, n) + 1; }

int main(int argc, char **argv)
{
	(void)argc;
	static island_function *copies[COPIES];
	off_t offset = (char *)island - __executable_start;
	unsigned long sum = 0;
	int self = open("/proc/self/exe", O_RDONLY);
	for (int i = 0; i < COPIES; i++) {
		copies[i] = (island_function *)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, self, offset);
		if (copies[i] == MAP_FAILED)
			return 1;
	}
	FOR_SECONDS(atof(argv[1]))
		for (int i = 0; i < COPIES; i++)
			sum += call(copies[i], 10000);
	return sum == 42;
}
