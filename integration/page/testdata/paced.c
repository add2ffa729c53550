// paced does the same work every ten milliseconds, and sleeps in between, as a service does. Two builds of it differ in
// WORK, so in what price takes, and in nothing else.
#include <sched.h>
#include <stdint.h>
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

int main(void)
{
	struct sched_param priority = { .sched_priority = 1 };
	sched_setscheduler(0, SCHED_FIFO, &priority); // other load of the machine does not delay it, where that is allowed

	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		price(16000);
		parse(8000);
		render(8000);
		next.tv_nsec += 10000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
	}
}
