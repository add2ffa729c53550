// slower N does the same work N times. Two builds of it differ in WORK, so in what price takes.
#include <stdint.h>
#include <stdlib.h>

static volatile uint64_t sink;

__attribute__((noinline)) void price(uint64_t n)
{
	uint64_t x = 1;
	for (uint64_t i = 0; i < n * WORK; i++)
		x = x * 6364136223846793005ull + 1;
	sink = x;
}

__attribute__((noinline)) void parse(uint64_t n)
{
	uint64_t x = 1;
	for (uint64_t i = 0; i < n * 150; i++) {
		x ^= x << 7;
		x ^= x >> 9;
	}
	sink = x;
}

__attribute__((noinline)) void render(uint64_t n)
{
	double d = 1;
	for (uint64_t i = 0; i < n * 60; i++)
		d = d * 1.0000001 + 0.1;
	sink = (uint64_t)d;
}

int main(int argc, char **argv)
{
	for (int i = 0; i < atoi(argv[argc - 1]); i++) {
		price(1000);
		parse(1000);
		render(1000);
	}
	return 0;
}
