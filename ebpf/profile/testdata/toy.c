/*
 * An interpreter for interpreted_test.go. Each thread runs outer_N, which calls middle in the same
 * native frame, which calls native code, which calls leaf_N: a new evaluation.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4 };

struct code {
	const char *name;
	long line;
	void *owner;
};

struct frame {
	struct frame *caller;
	struct code *code;
	long ip;
	long entry; /* native code called it */
};

__thread struct frame *toy_top;
volatile int toy_ready;
static double seconds;

static struct code *new_code(const char *name, int thread, int line)
{
	struct code *c = malloc(sizeof(*c));
	char *text = malloc(64);

	if (thread >= 0)
		snprintf(text, 64, "%s_%d", name, thread);
	else
		snprintf(text, 64, "%s", name);
	c->name = text;
	c->line = line;
	c->owner = text;
	return c;
}

static void native_callback(int thread);

static void push(struct frame *f, struct code *c, long ip, long entry)
{
	f->code = c;
	f->ip = ip;
	f->entry = entry;
	f->caller = toy_top;
	__asm__ volatile("" ::: "memory");
	toy_top = f;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) void toy_evaluate(struct code *c, struct code *inner, int thread)
{
	struct frame f, g;

	push(&f, c, 3, 1);
	if (inner) {
		push(&g, inner, 5, 0);
		native_callback(thread);
		toy_top = f.caller;
	} else {
		double end = now() + seconds;
		volatile long x = 0;

		while (now() < end)
			for (int i = 0; i < 100000; i++)
				x += i;
	}
	toy_top = f.caller;
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void native_callback(int thread)
{
	toy_evaluate(new_code("leaf", thread, 300 + thread), 0, thread);
	__asm__ volatile("" ::: "memory");
}

static void *run(void *argument)
{
	int thread = (int)(long)argument;

	toy_evaluate(new_code("outer", thread, 100 + thread), new_code("middle", -1, 200), thread);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	seconds = argc > 1 ? atof(argv[1]) : 1;
	toy_ready = 1;
	for (long i = 1; i < THREADS; i++)
		pthread_create(&threads[i], 0, run, (void *)i);
	run(0);
	for (int i = 1; i < THREADS; i++)
		pthread_join(threads[i], 0);
	return 0;
}
