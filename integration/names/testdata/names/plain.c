// Plain computes for some seconds in functions that are inlined into one another and into a callback of libc.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct point {
	unsigned x, y;
};

static inline __attribute__((always_inline)) unsigned twist(unsigned x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ x << 5;
}

static inline __attribute__((always_inline)) unsigned distance(const struct point *p)
{
	return twist(p->x) % 1000 + twist(p->y) % 1000;
}

static int nearer(const void *a, const void *b)
{
	return (int)distance(a) - (int)distance(b);
}

static __attribute__((noinline)) unsigned text(char *out, size_t size, const struct point *p)
{
	return (unsigned)snprintf(out, size, "%u/%u", p->x, p->y) + (unsigned)strlen(out);
}

int main(int argc, char **argv)
{
	enum { COUNT = 2000 };
	static struct point points[COUNT];
	char line[64];
	unsigned sum = 0, seed = 1;
	time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
	while (time(NULL) < end) {
		for (int i = 0; i < COUNT; i++) {
			points[i].x = seed = twist(seed);
			points[i].y = seed = twist(seed);
			sum += text(line, sizeof line, &points[i]);
		}
		qsort(points, COUNT, sizeof points[0], nearer);
	}
	return sum == 42;
}
