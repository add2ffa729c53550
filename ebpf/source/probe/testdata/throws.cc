// Calls a function that returns, throws, and jumps to another function, as often as its first argument says, and
// prints what came of it.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

extern "C" __attribute__((noinline)) long parse(long n)
{
	if (n % 10 == 3)
		throw std::runtime_error("three");
	return n * 0x1122334455667788L;
}

int main(int, char **argv)
{
	long calls = atol(argv[1]), caught = 0;
	unsigned long sum = 0;
	getchar();
	for (long i = 0; i < calls; i++) {
		try {
			sum += parse(i);
		} catch (std::exception &) {
			caught++;
		}
	}
	printf("sum %lx, %ld caught\n", sum, caught);
}
