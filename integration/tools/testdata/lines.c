// Keeps memory in two lines of one function. Prints each line's number and how many bytes malloc has given out there by
// its own count.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static void *volatile kept;

static __attribute__((noinline)) size_t filled(size_t bytes)
{
	struct mallinfo2 before = mallinfo2(), after;

	kept = memset(malloc(bytes), 1, bytes);
	after = mallinfo2();
	return after.hblkhd + after.uordblks - before.hblkhd - before.uordblks;
}

int main(void)
{
	const int line = __LINE__;
	size_t more = 0, less = 0;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page is one page fault */
	for (int i = 0; i < 96; i++) {
		more += filled(1 << 20);
		less += filled(3 << 17);
	}
	printf("%d %zu\n%d %zu\n", line + 5, more, line + 6, less);
	return 0;
}
