/*
 * Burns CPU with an alternate signal stack that has room for the kernel's signal frame and 1 KiB more, above a page that
 * nobody may touch. Rust's threads have 8 KiB, of which the frame of a CPU with AVX-512 takes half.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>

__attribute__((noipa)) unsigned long burn(unsigned long n)
{
	volatile unsigned long sum = 0;
	for (unsigned long i = 0; i < n; i++)
		sum += i * i;
	return sum;
}

int main(int argc, char **argv)
{
	const size_t page = 4096, frame = getauxval(AT_MINSIGSTKSZ), room = frame ? frame + 1024 : 4096;
	clock_t end = clock() + (argc > 1 ? atof(argv[1]) : 1) * CLOCKS_PER_SEC;
	char *memory = mmap(NULL, page + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = {.ss_sp = memory + page, .ss_size = room};

	if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) || sigaltstack(&stack, NULL))
		return 1;
	while (clock() < end)
		burn(1000000);
	return 0;
}
