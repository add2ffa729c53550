/* For each number that it reads, it calls a function as often, which touches new memory, and prints the number. */
#include <stdio.h>
#include <sys/mman.h>

static char *page;

__attribute__((noinline)) long work(long n)
{
	madvise(page, 4096, MADV_DONTNEED);
	*(volatile char *)page = 1;
	return n + 1;
}

int main(void)
{
	long calls, sum = 0;

	page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	while (page != MAP_FAILED && scanf("%ld", &calls) == 1) {
		for (long i = 0; i < calls; i++)
			sum = work(sum);
		printf("%ld\n", calls);
		fflush(stdout);
	}
	return sum < 0;
}
