/*
 * scribble MODE PROGRAM ARGS...: runs a program for ten minutes, again when it has ended, and writes half of the time to
 * what a runtime keeps in the memory of it, as MODE says:
 *
 *	objects  data that the busiest thread's stack leads to, and the heads of its code: become pointers that were there
 *	nowhere  the same become what is mapped nowhere, the end of a page, and any number
 *	frames   pointers on that stack become others to data
 *	all      all data become all that
 *
 * The program goes on for long if that thread is in a loop that needs no memory, and others wait: no code and no return
 * address is written to.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	REGIONS = 4096, WORDS = 1 << 14, POOL = 1024, MET = 1 << 20, NEAR = 512, LARGE = 1 << 20, HEAD = 8192, OBJECT = 128,
	LOOK = 5, WARM = 150, ALIVE = 600
};

struct region {
	uint64_t low, high;
	int code;
};
struct word {
	uint64_t at, value;
};

static struct region regions[REGIONS], stack;
static int region_count;
static struct word words[WORDS]; /* to be written to */
static int word_count, memory;
static uint64_t pool[POOL]; /* pointers that were met */
static int pool_count, errors;
static uint64_t met[MET];
static uint64_t seed = 1, loop, edge;

static uint64_t chance(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The thread that has used most time, and that in ticks. */
static int busiest(int pid, unsigned long *most)
{
	char path[64];
	int thread = pid;

	*most = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		unsigned long used = 0;
		char stat[1024] = "", *end;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, atoi(e->d_name));
		FILE *f = fopen(path, "r");
		if (!f)
			continue;
		stat[fread(stat, 1, sizeof(stat) - 1, f)] = 0;
		fclose(f);
		end = strrchr(stat, ')');
		if (end && sscanf(end + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", &used) == 1 && used > *most) {
			*most = used;
			thread = atoi(e->d_name);
		}
	}
	if (dir)
		closedir(dir);
	return thread;
}

/* Finds out where a thread is, and where its stack begins. */
static int look(int thread)
{
	struct user_regs_struct r;
	int status;

	if (ptrace(PTRACE_SEIZE, thread, 0, 0))
		return -1;
	if (ptrace(PTRACE_INTERRUPT, thread, 0, 0) || waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
		return -1;
	int failed = ptrace(PTRACE_GETREGS, thread, 0, &r);
	ptrace(PTRACE_DETACH, thread, 0, 0);
	loop = r.rip;
	stack.low = r.rsp & ~7ul;
	return failed;
}

/*
 * Data and code that a program has made: not the heap of the C library, no stack, which has pages without access below
 * it, and no file but an archive of classes.
 */
static void find_regions(int pid)
{
	char path[64], line[1024];

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *f = fopen(path, "r");
	uint64_t guard = 0;
	region_count = stack.high = 0;
	while (f && fgets(line, sizeof(line), f) && region_count < REGIONS) {
		struct region *r = &regions[region_count];
		char flags[8];
		int name = 0;
		unsigned long inode;

		if (sscanf(line, "%lx-%lx %7s %*x %*s %lu %n", &r->low, &r->high, flags, &inode, &name) < 4)
			continue;
		if (r->low <= stack.low && stack.low < r->high) {
			stack.high = r->high;
			continue;
		}
		r->code = flags[2] == 'x';
		if (flags[0] == '-' && r->high - r->low < LARGE)
			guard = r->high;
		if (r->low != guard && flags[0] == 'r' && (r->code || flags[1] == 'w') && line[name] != '[' && (!inode || strstr(line, ".jsa")))
			region_count++;
	}
	if (f)
		fclose(f);
}

static struct region *region_of(uint64_t value)
{
	for (int i = 0; i < region_count; i++)
		if (regions[i].low <= value && value < regions[i].high)
			return &regions[i];
	return NULL;
}

/* Reports whether a word may be a number, or two: no instruction looks like that. */
static int number(uint64_t value) { return value && (uint32_t)value < 1 << 16 && value >> 32 < 1 << 16; }

/* Remembers an address, and reports whether it was new. */
static int fresh(uint64_t addr)
{
	uint64_t n = addr * 0x9e3779b97f4a7c15 % MET;

	for (; met[n]; n = (n + 1) % MET)
		if (met[n] == addr)
			return 0;
	met[n] = addr;
	return word_count < WORDS;
}

/* Adds the words between two addresses. */
static void add(uint64_t from, uint64_t to, int code, int one_of)
{
	static uint64_t page[512];

	for (uint64_t at = from; at < to; at += sizeof(page)) {
		ssize_t n = pread(memory, page, to - at < sizeof(page) ? to - at : sizeof(page), at);
		for (int i = 0; i < n / 8; i++) {
			struct region *leads = region_of(page[i]);
			uint64_t addr = at + 8 * i;

			if (!page[i] || (code && !leads && !number(page[i])) || chance() % one_of || !fresh(addr))
				continue;
			if (addr > loop - NEAR && addr < loop + NEAR)
				continue;
			words[word_count++] = (struct word){addr, page[i]};
			if (leads && !leads->code)
				pool[pool_count < POOL ? (uint64_t)pool_count++ : chance() % POOL] = page[i];
		}
	}
}

/* Adds what the stack leads to: data, the heads of code, and what those lead to. */
static void follow(void)
{
	static uint64_t page[8192];
	ssize_t n = pread(memory, page, stack.high - stack.low < sizeof(page) ? stack.high - stack.low : sizeof(page), stack.low);

	for (int i = 0; i < n / 8; i++) {
		struct region *leads = region_of(page[i]);
		if (leads && leads->code && fresh(page[i]))
			add(page[i] - HEAD < leads->low ? leads->low : (page[i] - HEAD) & ~7ul, page[i] & ~7ul, 1, 1);
		else if (leads && fresh(page[i]))
			add(page[i] & ~7ul, (page[i] & ~7ul) + OBJECT, 0, 1);
	}
	for (int i = 0; i < word_count; i++) {
		struct region *leads = region_of(words[i].value);
		if (leads && !leads->code && fresh(words[i].value))
			add(words[i].value & ~7ul, (words[i].value & ~7ul) + OBJECT, 0, 1);
	}
}

static void find_frames(void)
{
	word_count = 0;
	memset(met, 0, sizeof(met));
	add(stack.low, stack.high, 1, 1);
	int kept = 0;
	for (int i = 0; i < word_count; i++) {
		struct region *leads = region_of(words[i].value);
		if (leads && !leads->code) /* and no return address */
			words[kept++] = words[i];
	}
	word_count = kept;
}

static void find(const char *mode)
{
	word_count = pool_count = 0;
	memset(met, 0, sizeof(met));
	edge = regions[region_count - 1].high;
	if (strcmp(mode, "all"))
		follow();
	if (!strcmp(mode, "frames"))
		find_frames();
	for (int i = 0; i < region_count && !strcmp(mode, "all"); i++) {
		uint64_t size = regions[i].high - regions[i].low;
		add(regions[i].low, regions[i].low + (size > 64 * LARGE ? 64 * LARGE : size), regions[i].code, 64);
	}
}

static uint64_t nonsense(uint64_t value)
{
	switch (chance() % 7) {
	case 0:
		return 8;
	case 1:
		return edge - 8 * (chance() % 32) + value % 8;
	case 2:
		return 0xffffffff81000000;
	case 3:
		return chance() & 0x7fffffffffff;
	case 4:
		return chance();
	case 5:
		return value ^ (chance() & 0xffff);
	}
	return pool[chance() % pool_count];
}

/* Writes to a word, and restores another one, so that there is always much that is right. */
static void scribble(const char *mode)
{
	struct word *w = &words[chance() % word_count], *back = &words[chance() % word_count];
	uint64_t value = pool[chance() % pool_count];

	if (!strcmp(mode, "nowhere") || (!strcmp(mode, "all") && chance() % 2))
		value = nonsense(w->value);
	if (pwrite(memory, &value, 8, w->at) < 0 || pwrite(memory, &back->value, 8, back->at) < 0)
		errors++;
}

static void work(const char *mode, int pid)
{
	char path[64];
	unsigned long used;
	int status;
	double again = 0;

	while (waitpid(pid, &status, WNOHANG) == 0 && (busiest(pid, &used), used < WARM)) /* it makes code meanwhile */
		usleep(100000);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory = open(path, O_RDWR | O_CLOEXEC);
	while (memory >= 0 && waitpid(pid, &status, WNOHANG) == 0) {
		if (now(CLOCK_MONOTONIC) > again) {
			again = now(CLOCK_MONOTONIC) + (again ? 1e9 : LOOK);
			if (look(busiest(pid, &used)))
				break;
			find_regions(pid);
			find(mode);
			printf("%s: process %d, %d words, %d pointers\n", mode, pid, word_count, pool_count);
			fflush(stdout);
			if (!word_count || !pool_count)
				break;
		}
		for (double end = now(CLOCK_PROCESS_CPUTIME_ID) + 0.02; now(CLOCK_PROCESS_CPUTIME_ID) < end;)
			for (int i = 0; i < 64; i++)
				scribble(mode);
		usleep(20000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("%s: process %d has ended\n", mode, pid);
	fflush(stdout);
	close(memory);
}

int main(int argc, char **argv)
{
	alarm(ALIVE); /* it outlives a test that is killed by no more */
	if (argc < 3)
		return 1;
	for (;;) {
		int pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			execv(argv[2], argv + 2);
			exit(1);
		}
		if (pid < 0)
			return 1;
		work(argv[1], pid);
	}
}
