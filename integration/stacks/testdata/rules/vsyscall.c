/* Asks for the time by the page that the kernel has at one address in every process, as programs of before the vdso do. */
#include "work.h"

FRAME unsigned long asks(unsigned long n)
{
	long (*volatile ask)(long *) = (long (*)(long *))0xffffffffff600400;
	unsigned long sum = 0;
	while (n--)
		sum += ask(0);
	return sum;
}

int main(int argc, char **argv)
{
	(void)argc;
	unsigned long sum = 0;
	FOR_SECONDS(atof(argv[1]))
		sum += asks(1000);
	return sum == 1;
}
