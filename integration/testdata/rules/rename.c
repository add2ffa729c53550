/* Changes its name: hwname-one while it is in one(), hwname-two in two(). */
#include <sys/prctl.h>

#include "work.h"

FRAME unsigned long one(unsigned long n) { return burn(n) + 1; }
FRAME unsigned long two(unsigned long n) { return burn(n) + 2; }

int main(int argc, char **argv)
{
	(void)argc;
	time_t end = deadline(argv);
	unsigned long sum = 0;
	while (time(NULL) < end) {
		prctl(PR_SET_NAME, "hwname-one");
		sum += one(20000000);
		prctl(PR_SET_NAME, "hwname-two");
		sum += two(20000000);
	}
	return sum == 42;
}
