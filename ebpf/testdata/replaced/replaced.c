// replaced HOW SECONDS MILLISECONDS A B: runs the code of two libraries in turn, at one place if HOW says so. in_a runs
// that of A alone, and in_b that of B.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef void code(int);

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) void in_a(code *run)
{
	run(5);
	__asm__ volatile("nop");
}

__attribute__((noinline)) void in_b(code *run)
{
	run(5);
	__asm__ volatile("nop; nop");
}

static void turn(int odd, code *run, double seconds)
{
	for (double end = now() + seconds; now() < end;)
		(odd ? in_b : in_a)(run);
}

struct text {
	void *start;
	size_t size;
	long offset;
};

// text returns where the code of a library is.
static struct text text(const char *library)
{
	struct text t = { 0 };
	char line[4096], mode[5];
	unsigned long start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s %lx", &start, &end, mode, &offset) == 4 && strchr(mode, 'x') && strstr(line, library))
			t = (struct text){ (void *)start, end - start, offset };
	fclose(maps);
	return t;
}

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const char *how = argv[1], *paths[] = { argv[4], argv[5] };
	double end = now() + atof(argv[2]), seconds = atof(argv[3]) / 1e3;
	int moved = !strcmp(how, "mremap");

	if (!strcmp(how, "dlopen")) {
		for (int odd = 0; now() < end; odd ^= 1) {
			void *library = dlopen(paths[odd], RTLD_NOW);
			check(library != NULL, dlerror());
			turn(odd, (code *)dlsym(library, "run"), seconds);
			dlclose(library);
		}
		return 0;
	}
	void *library = dlopen(paths[0], RTLD_NOW);
	check(library != NULL, "dlopen");
	code *run = (code *)dlsym(library, "run");
	struct text place = text(paths[0]);
	int files[] = { open(paths[0], O_RDONLY), open(paths[1], O_RDONLY) };
	for (int odd = 0; now() < end; odd ^= 1) {
		void *at = mmap(moved ? NULL : place.start, place.size, PROT_READ | PROT_EXEC, MAP_PRIVATE | (moved ? 0 : MAP_FIXED),
				files[odd], place.offset);
		check(at != MAP_FAILED, "mmap");
		if (moved)
			at = mremap(at, place.size, place.size, MREMAP_MAYMOVE | MREMAP_FIXED, place.start);
		check(at == place.start, "mremap");
		turn(odd, run, seconds);
	}
	return 0;
}
