/*
 * hostile VERB [TARGET]: burns a little CPU time ten times a second for ten minutes, and does to the files that a profiler reads of it
 * what VERB says. Its root directory, with a folder tmp, is its own.
 *
 *	burn            nothing; the time is spent in FUNCTION, as main's
 *	honest          code outside of any file, named by a perf map
 *	link TARGET     such code, with a perf map that is a link to TARGET
 *	rewrite         such code, with a perf map of 8 GiB, nearly all of it a hole, that is written again and again
 *	dump            such code, with a jitdump whose first record claims 4 GiB
 *	relink TARGET   such code, with a jitdump that becomes a link to TARGET, and a file again
 *	bogus           code of 64 files that are no programs
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CODE_ADDR 0x10000000UL
#define PAGE 4096UL
#define CHECK(ok) \
	do { \
		if (!(ok)) { \
			perror(#ok); \
			exit(1); \
		} \
	} while (0)

typedef void burner(unsigned long rounds);

/* A loop that counts down its argument. */
#if defined(__x86_64__)
static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
#elif defined(__aarch64__)
static const unsigned char code[] = {0, 4, 0, 0xf1, 0xe1, 0xff, 0xff, 0x54, 0xc0, 3, 0x5f, 0xd6};
#endif

__attribute__((noinline)) void FUNCTION(unsigned long rounds)
{
	for (volatile unsigned long i = 0; i < rounds; i++)
		;
}

static double cpu_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void pulse(burner *burn)
{
	for (double end = cpu_time() + 0.005; cpu_time() < end;)
		burn(200000);
	usleep(95000);
}

static int create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0);
	return fd;
}

static void put(int fd, const void *bytes, size_t n) { CHECK(write(fd, bytes, n) == (ssize_t)n); }

/* Code at CODE_ADDR, in memory of no file. */
static burner *jit(void)
{
	void *at = mmap((void *)CODE_ADDR, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(at != MAP_FAILED);
	memcpy(at, code, sizeof code);
	__builtin___clear_cache(at, (char *)at + sizeof code);
	return (burner *)at;
}

static void write_map(const char *path, const char *name)
{
	int fd = create(path);
	dprintf(fd, "%lx %lx %s\n", CODE_ADDR, PAGE, name);
	close(fd);
}

/* Half a MiB of lines, 8 GiB of nothing, and one more line. */
static void rewrite_map(const char *path, unsigned round)
{
	int fd = create(path);
	char text[64];
	for (unsigned i = 0; i < 16384; i++)
		put(fd, text, snprintf(text, sizeof text, "%x 10 function%u_%u\n", 0x20000000 + 16 * i, round, i));
	CHECK(lseek(fd, 8L << 30, SEEK_SET) > 0);
	put(fd, "1 1 end\n", 8);
	close(fd);
}

/* A jitdump with one record of size bytes, a page of it mapped as code, as perf wants it. */
static void write_dump(const char *path, uint32_t size)
{
	uint32_t header[10] = {0x4a695444, 1, sizeof header, 62, 0, getpid()}, record[14] = {0, size};
	int fd = create(path);
	put(fd, header, sizeof header);
	put(fd, record, sizeof record);
	CHECK(!ftruncate(fd, 8L << 30));
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	close(fd);
}

static burner *bogus(int i)
{
	char path[64];
	snprintf(path, sizeof path, "/tmp/bogus%d.so", i);
	unsigned char page[2 * PAGE];
	memset(page, 0xff, sizeof page);
	memcpy(page, "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\76\0\1\0\0\0", 24);
	memcpy(page + PAGE, code, sizeof code);
	int fd = create(path);
	put(fd, page, sizeof page);
	char *at = mmap(NULL, sizeof page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	CHECK(at != MAP_FAILED);
	close(fd);
	return (burner *)(at + PAGE);
}

int main(int argc, char **argv)
{
	alarm(600); /* it outlives a test that is killed by no more */
	const char *verb = argv[1], *target = argc > 2 ? argv[2] : "";
	char map[64], dump[64];
	snprintf(map, sizeof map, "/tmp/perf-%d.map", getpid());
	snprintf(dump, sizeof dump, "/tmp/jit-%d.dump", getpid());
	burner *burn[64] = {FUNCTION};
	int count = 1, rewrites = !strcmp(verb, "rewrite"), relinks = !strcmp(verb, "relink");
	if (!strcmp(verb, "bogus"))
		for (count = 0; count < 64; count++)
			burn[count] = bogus(count);
	else if (strcmp(verb, "burn"))
		burn[0] = jit();
	if (!strcmp(verb, "honest"))
		write_map(map, "honest_code");
	if (!strcmp(verb, "link"))
		CHECK(!symlink(target, map));
	if (!strcmp(verb, "dump"))
		write_dump(dump, 0xfffffff0);
	for (unsigned round = 0;; round++) {
		if (rewrites && round % 3 == 0)
			rewrite_map(map, round);
		if (relinks && round % 20 == 0) {
			unlink(dump);
			round % 40 ? symlink(target, dump) : (write_dump(dump, 16), 0);
		}
		pulse(burn[round % count]);
	}
}
