/*
 * app SECONDS [jit]: works an eighth of the time, with jit in a function that it makes while it runs and names in a perf
 * map. Builds that differ in PREFIX alone have the same code at the same addresses, and differ in the names of their
 * functions and in their build IDs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "app.h"

#define STRING(text) #text
#define TEXT(text) STRING(text)

static unsigned long (*jitted)(long);

/* push %rbp; mov %rsp,%rbp; 1: dec %rdi; jnz 1b; pop %rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};

static void make_jitted(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	if (memory == MAP_FAILED || !map) {
		perror(path);
		exit(1);
	}
	memcpy(memory, code, sizeof code);
	fprintf(map, "%lx %zx %s\n", (unsigned long)memory, sizeof code, TEXT(NAME(jitted)));
	fclose(map);
	jitted = (unsigned long (*)(long))memory;
}

FRAME NAME(leaf)(long rounds)
{
	if (jitted)
		return jitted(rounds) + 1;
	volatile unsigned long sum = 0;
	for (long i = 0; i < rounds; i++)
		sum += i;
	return sum;
}

FRAME NAME(middle)(long rounds) { return NAME(library)(NAME(leaf), rounds) + 1; }
FRAME NAME(outer)(long rounds) { return NAME(middle)(rounds) + 1; }

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc > 2)
		make_jitted();
	double end = now(CLOCK_MONOTONIC) + (argc > 1 ? atoi(argv[1]) : 1);
	while (now(CLOCK_MONOTONIC) < end) {
		double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		NAME(outer)(10 * 1000 * 1000);
		cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		struct timespec rest = {0, (long)(cpu < 0.1 ? 7 * cpu * 1e9 : 7e8)};
		nanosleep(&rest, NULL);
	}
}
