/*
 * chain SECONDS [ROUNDS [RESTS]]: calls the chain again and again for so long, or with -SECONDS for so much CPU time. After each call it rests for
 * RESTS times as long as that took of CPU time. f00 to f19 and f40 to f59 are in the program, the others in libchain.so.
 */
#include <time.h>
#include <unistd.h>

#include "chain.h"

PLAIN(f00, f01)
PLAIN(f01, f02)
LARGE(f02, f03, 24)
ALLOCA(f03, f04)
PLAIN(f04, f05)
REALIGNED(f05, f06)
PLAIN(f06, f07)
LARGE(f07, f08, 200)
PLAIN(f08, f09)
PLAIN(f09, f10)
ALLOCA(f10, f11)
PLAIN(f11, f12)
REALIGNED(f12, f13)
PLAIN(f13, f14)
PLAIN(f14, f15)
PLAIN(f15, f16)
PLAIN(f16, f17)
ALLOCA(f17, f18)
PLAIN(f18, f19)
REALIGNED(f19, f20)

unsigned long f41(struct chain *);

__attribute__((noipa)) int f40(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	f41(x->chain);
	return x->key - y->key;
}

PLAIN(f41, f42)
LARGE(f42, f43, 24)
PLAIN(f43, f44)
PLAIN(f44, f45)
ALLOCA(f45, f46)
PLAIN(f46, f47)
REALIGNED(f47, f48)
PLAIN(f48, f49)
PLAIN(f49, f50)
PLAIN(f50, f51)
PLAIN(f51, f52)
ALLOCA(f52, f53)
PLAIN(f53, f54)
REALIGNED(f54, f55)
PLAIN(f55, f56)
PLAIN(f56, f57)
LARGE(f57, f58, 40000)
PLAIN(f58, f59)

FRAME f59(struct chain *c)
{
	volatile unsigned long sum = 0;
	for (long i = 0; i < c->rounds; i++)
		sum += i * i;
	return sum;
}

int main(int argc, char **argv)
{
	struct chain c = {f40, argc > 2 ? atol(argv[2]) : 20000000};
	long seconds = argc > 1 ? atol(argv[1]) : 1, rests = argc > 3 ? atol(argv[3]) : 0;
	time_t end = time(NULL) + seconds;
	unsigned long sum = 0;
	while (seconds < 0 ? clock() < -seconds * CLOCKS_PER_SEC : time(NULL) < end) {
		clock_t before = clock();
		sum += f00(&c);
		if (rests)
			usleep(rests * (clock() - before) * (1000000 / CLOCKS_PER_SEC));
	}
	return sum == 42;
}
