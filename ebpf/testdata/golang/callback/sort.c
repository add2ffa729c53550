#include <stdlib.h>

int compareInGo(void *a, void *b);

/* Both do something after the call, so that it is a call. */
static int compare(const void *a, const void *b)
{
	int result = compareInGo((void *)a, (void *)b);

	__asm__ volatile("");
	return result;
}

void sortInC(int *list, int n)
{
	qsort(list, n, sizeof(*list), compare);
	__asm__ volatile("");
}
