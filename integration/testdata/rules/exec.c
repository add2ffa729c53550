/* hwexec-a and hwexec-b, built with -DBURN=a_burn and b_burn: each burns for an instant and becomes the other, in the same process. */
#include <stdio.h>
#include <unistd.h>

#include "work.h"

#ifdef PAD /* so that the addresses of one are other functions in the other */
FRAME unsigned long padding(volatile unsigned long *n)
{
	for (int i = 0; i < 300; i++)
		n[i & 3] += n[i & 1] * i;
	return *n;
}
__asm__(".skip 3000, 0x90");
#endif

FRAME unsigned long BURN(unsigned long n) { return burn(n) + 1; }

int main(int argc, char **argv)
{
	(void)argc;
	/* SECONDS OTHER [END] */
	char text[32];
	time_t end = argc > 3 ? atol(argv[3]) : deadline(argv);
	BURN(10000000);
	if (time(NULL) >= end)
		return 0;
	snprintf(text, sizeof text, "%ld", (long)end);
	execl(argv[2], argv[2], argv[1], argv[0], text, NULL);
	return 1;
}
