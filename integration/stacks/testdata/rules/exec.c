/* hwexec-a and hwexec-b, built with -DBURN=a_burn and b_burn: each burns for an instant and becomes the other, in the same process. */
#include <stdio.h>
#include <unistd.h>

#include "work.h"

#define INSTANT 0.025 /* seconds */

#ifdef PAD /* so that the addresses of one are other functions in the other */
FRAME unsigned long padding(volatile unsigned long *n)
{
	for (int i = 0; i < 300; i++)
		n[i & 3] += n[i & 1] * i;
	return *n;
}
__asm__(".skip 3000, 0x90");
#endif

FRAME unsigned long BURN(void)
{
	unsigned long sum = 0;
	FOR_SECONDS(INSTANT) sum += burn(100000);
	return sum;
}

int main(int argc, char **argv)
{
	/* SECONDS OTHER [INSTANTS], which are those that are left to both. */
	char text[32];
	long left = argc > 3 ? atol(argv[3]) : 2 * atof(argv[1]) / INSTANT;
	BURN();
	if (left <= 1)
		return 0;
	snprintf(text, sizeof text, "%ld", left - 1);
	execl(argv[2], argv[2], argv[1], argv[0], text, NULL);
	return 1;
}
