/* Waits for a byte, then calls a function as often as its argument says, and prints what it has done. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
unsigned short shop_sold_semaphore __attribute__((section(".probes")));

__attribute__((noinline)) long work(long n)
{
	/* Whoever looks at the probe has raised its semaphore. */
	if (shop_sold_semaphore)
		DTRACE_PROBE1(shop, sold, n);
	__asm__ volatile("" ::: "memory");
	return n * 2;
}

__attribute__((noinline)) long outer(long n)
{
	long result = work(n) + 1;
	__asm__ volatile("" ::: "memory");
	return result;
}

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 0;
	long sum = 0;
	char c;

	if (read(0, &c, 1) != 1)
		return 1;
	for (int i = 0; i < calls; i++) {
		sum += outer(i % 10);
		if (i % 10 == 9)
			usleep(20000);
	}
	printf("%ld\n", sum);
	return 0;
}
