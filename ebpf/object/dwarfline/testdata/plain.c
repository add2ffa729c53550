/* Inlined calls in inlined calls, in a loop that compilers split in hot and cold parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline __attribute__((always_inline)) int twist(int x)
{
	return x * 31 + rand();
}

static inline __attribute__((always_inline)) int both(int x)
{
	if (x & 1)
		return twist(x) + twist(x + 1);
	return twist(x);
}

static int rare(const char *text)
{
	fprintf(stderr, "%s\n", text);
	return (int)strlen(text);
}

__attribute__((noinline)) static int sum(int n, const char *text)
{
	int s = 0;
	for (int i = 0; i < n; i++) {
		s += both(i);
		if (__builtin_expect(s == 12345, 0))
			s += rare(text);
	}
	return s;
}

int main(int argc, char **argv)
{
	printf("%d\n", sum(argc * 100, argv[0]));
	return 0;
}
