/* Changes its name: hwname-one while it is in one(), hwname-two in two(). */
#include <sys/prctl.h>

#include "work.h"

#define TURN 0.05 /* seconds */

FRAME unsigned long one(unsigned long n) { return burn(n) + 1; }
FRAME unsigned long two(unsigned long n) { return burn(n) + 2; }

int main(int argc, char **argv)
{
	(void)argc;
	unsigned long sum = 0;
	for (double left = atof(argv[1]); left > 0; left -= TURN) {
		prctl(PR_SET_NAME, "hwname-one");
		FOR_SECONDS(TURN) sum += one(200000);
		prctl(PR_SET_NAME, "hwname-two");
		FOR_SECONDS(TURN) sum += two(200000);
	}
	return sum == 42;
}
