// Allocates by the functions that the names in its arguments are, 24 MiB of each, as Rust's crate and others call
// mimalloc, when a line comes in. "churn" frees all that it allocates.
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 40000, WANTED = 24 << 20 };

static void *kept[1 << 20];
static int n;

#define EACH(name, call)                                                                       \
	__attribute__((noinline)) static void name(void)                                       \
	{                                                                                      \
		for (size_t done = 0; done < WANTED; done += SIZE)                             \
			*(volatile char *)(kept[n++] = (call)) = 1;                            \
	}
EACH(malloc_aligned, mi_malloc_aligned(SIZE, 8))
EACH(malloc_aligned64, mi_malloc_aligned(SIZE, 64))
EACH(zalloc_aligned, mi_zalloc_aligned(SIZE, 8))
EACH(zalloc, mi_zalloc(SIZE))
EACH(plain, mi_malloc(SIZE))
EACH(array, mi_mallocn(4, SIZE / 4))
EACH(cleared, mi_calloc(8, SIZE / 8))
EACH(grown, mi_realloc_aligned(mi_malloc_aligned(100, 8), SIZE, 8))
EACH(regrown, mi_rezalloc(mi_zalloc(10), SIZE))
EACH(rearray, mi_recalloc(mi_zalloc(10), 10, SIZE / 10))
EACH(operator, mi_new(SIZE))
EACH(heaped, mi_heap_malloc(mi_heap_get_default(), SIZE))
EACH(heaped_array, mi_heap_calloc(mi_heap_get_default(), 5, SIZE / 5))
EACH(heaped_grown, mi_heap_realloc(mi_heap_get_default(), mi_malloc(10), SIZE))
EACH(heaped_rearray, mi_heap_reallocn(mi_heap_get_default(), mi_malloc(10), 20, SIZE / 20))

__attribute__((noinline)) static void churn(void)
{
	for (int i = 0; i < 500; i++) {
		void *p = mi_malloc_aligned(SIZE, 8);
		p = mi_realloc_aligned(p, 10 * SIZE, 8);
		mi_free_size_aligned(p, 10 * SIZE, 8);
		mi_free(mi_heap_zalloc(mi_heap_get_default(), SIZE));
		mi_free_size(mi_new_n(2, SIZE / 2), SIZE);
	}
}

static const struct {
	const char *name;
	void (*call)(void);
} all[] = {
#define NAMED(name) { #name, name }
	NAMED(malloc_aligned), NAMED(malloc_aligned64), NAMED(zalloc_aligned), NAMED(zalloc), NAMED(plain), NAMED(array),
	NAMED(cleared), NAMED(grown), NAMED(regrown), NAMED(rearray), NAMED(operator), NAMED(heaped), NAMED(heaped_array),
	NAMED(heaped_grown), NAMED(heaped_rearray), NAMED(churn),
};

int main(int argc, char **argv)
{
	mi_free(mi_malloc(1));
	getchar();
	for (int i = 1; i < argc; i++)
		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			if (!strcmp(argv[i], all[k].name))
				all[k].call();
	puts("done");
	fflush(stdout);
	getchar();
	getchar();
	return 0;
}
