// slower N does the same work N times, and prints the seconds of CPU time that each function took. Two builds of it
// differ in WORK, so in what price takes. Its rounds are not all as long: what repeats as often as a profiler takes
// samples would be sampled at the same places over and over.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

static double took(void (*function)(uint64_t), uint64_t n)
{
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	function(n);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9;
}

int main(int argc, char **argv)
{
	double prices = 0, parses = 0, renders = 0;
	uint64_t random = 1;

	for (int i = 0; i < atoi(argv[argc - 1]); i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		uint64_t n = 500 + (random >> 33) % 1000;
		prices += took(price, n);
		parses += took(parse, n);
		renders += took(render, n);
	}
	printf("price %f\nparse %f\nrender %f\n", prices, parses, renders);
	return 0;
}
