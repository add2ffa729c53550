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

static void move(void *from, size_t size, void *to)
{
	check(mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap");
}

// move_text moves the code of both libraries in turn: to a new place each time with HOW away, else between two places,
// with HOW halves in two steps. No code comes to a place where other code was.
static void move_text(const char *how, const char *paths[], double end, double seconds)
{
	struct text texts[2];
	char *places[2][2], *now_at[2];
	long run[2];
	char *room = mmap(NULL, 1 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(room != MAP_FAILED, "mmap");
	for (int i = 0; i < 2; i++) {
		void *library = dlopen(paths[i], RTLD_NOW);
		check(library != NULL, "dlopen");
		texts[i] = text(paths[i]);
		run[i] = (char *)dlsym(library, "run") - (char *)texts[i].start;
		places[i][0] = now_at[i] = texts[i].start;
		places[i][1] = room;
		room += texts[i].size;
	}
	for (int n = 0; now() < end; n++) {
		int odd = n & 1;
		size_t size = texts[odd].size, first = strcmp(how, "halves") ? size : 4096;
		char *to = places[odd][!(n & 2)];
		if (!strcmp(how, "away")) {
			to = room;
			room += size;
		}
		move(now_at[odd], first, to);
		if (first < size)
			move(now_at[odd] + first, size - first, to + first);
		now_at[odd] = to;
		turn(odd, (code *)(to + run[odd]), seconds);
	}
	_exit(0); // the libraries' last functions are elsewhere
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
	if (!strcmp(how, "away") || !strcmp(how, "back") || !strcmp(how, "halves"))
		move_text(how, paths, end, seconds);
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
			move(at, place.size, place.start);
		turn(odd, run, seconds);
	}
	return 0;
}
