/*
 * python MODE: seems to be CPython 3.11 that runs functions for ten minutes, half of the time, and writes all that time to
 * the frames that it seems to keep what MODE says:
 *
 *	codes     1,024 frames, each of a code object of its own that seems right, with long names and a long line table;
 *	          which name is where changes all the time
 *	cycle     frames that call each other in a circle, or themselves
 *	nowhere   pointers to what is not mapped, to the kernel's half, and to the end of a page, among those that are right
 *	places    1,024 frames of one code object, each at an instruction where nobody was before
 *
 * A profiler cannot tell it from the real one.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Offsets of CPython 3.11, as in layouts.txt of the package cpython. */
enum {
	RUNTIME_INTERPRETERS = 40, RUNTIME_KEY = 596,
	INTERPRETER_THREADS = 16,
	THREAD_INTERPRETER = 16, THREAD_CFRAME = 56, CFRAME_FRAME = 8,
	FRAME_CODE = 32, FRAME_PREVIOUS = 48, FRAME_INSTRUCTION = 56, FRAME_BYTES = 128,
	CODE_FIRSTLINE = 72, CODE_FILENAME = 112, CODE_NAME = 128, CODE_LINES = 136, CODE_BYTES = 256,
	OBJECT_TYPE = 8, TYPE_NAME = 24,
	BYTES_SIZE = 16, BYTES_DATA = 32,
	TEXT_LENGTH = 16, TEXT_STATE = 32, TEXT_ASCII = 48,
	FRAMES = 1024, CODES = 16384, NAMES = 64, NAME = 4096, TABLE = 65536,
};

__attribute__((aligned(64))) char _PyRuntime[4096];
const unsigned long Py_Version = 0x030b02f0;

static char interpreter[256], thread[256], cframe[64], type[64], frames[FRAMES * FRAME_BYTES] __attribute__((aligned(64)));
static char codes[CODES * CODE_BYTES] __attribute__((aligned(64))), texts[NAMES][TEXT_ASCII + NAME], lines[BYTES_DATA + TABLE];
static char *edge; /* the end of what is mapped */
static uint64_t seed = 1;

static void put(char *at, uint64_t word) { __atomic_store_n((uint64_t *)at, word, __ATOMIC_RELAXED); }
static void point(char *at, const void *to) { put(at, (uintptr_t)to); }

static uint64_t chance(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static char *frame(unsigned i) { return frames + i % FRAMES * FRAME_BYTES; }
static char *code(unsigned i) { return codes + i % CODES * CODE_BYTES; }

static void make_text(char *text, unsigned i)
{
	put(text, 1);
	put(text + TEXT_LENGTH, NAME);
	*(uint32_t *)(text + TEXT_STATE) = 1 << 2 | 1 << 5 | 1 << 6; /* of one byte, compact, ASCII */
	for (int k = 0; k < NAME; k++)
		text[TEXT_ASCII + k] = 'a' + (k + i * 7) % 26;
}

static void make_code(unsigned i)
{
	put(code(i), 1);
	point(code(i) + OBJECT_TYPE, type);
	put(code(i) + CODE_FIRSTLINE, chance() & 0xffffff);
	point(code(i) + CODE_FILENAME, texts[chance() % NAMES]);
	point(code(i) + CODE_NAME, texts[chance() % NAMES]);
	point(code(i) + CODE_LINES, lines);
}

static void make(void)
{
	point(type + TYPE_NAME, "code");
	for (unsigned i = 0; i < NAMES; i++)
		make_text(texts[i], i);
	put(lines + BYTES_SIZE, TABLE);
	for (unsigned i = 0; i < TABLE; i++)
		lines[BYTES_DATA + i] = i % 2 ? 0x80 | 13 << 3 : 2;
	for (unsigned i = 0; i < CODES; i++)
		make_code(i);
	for (unsigned i = 0; i < FRAMES; i++) {
		point(frame(i) + FRAME_CODE, code(i));
		if (i + 1 < FRAMES)
			point(frame(i) + FRAME_PREVIOUS, frame(i + 1));
	}
	edge = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (edge == MAP_FAILED || munmap(edge += 4096, 4096))
		exit(1);
}

static void *nowhere(void)
{
	switch (chance() % 6) {
	case 0:
		return (void *)8;
	case 1:
		return edge - 8 * (chance() % 32);
	case 2:
		return (void *)0xffffffff81000000;
	case 3:
		return (void *)(chance() & 0x7fffffffffff);
	case 4:
		return (void *)chance();
	}
	return frame(chance());
}

static void scribble(const char *mode)
{
	unsigned n = chance() % FRAMES;

	if (!strcmp(mode, "codes")) {
		if (chance() % 1000 == 0)
			make_code(chance());
		point(frame(n) + FRAME_CODE, code(chance()));
	} else if (!strcmp(mode, "cycle")) {
		point(frame(n) + FRAME_PREVIOUS, frame(chance() % 4 ? chance() : n));
	} else if (!strcmp(mode, "nowhere")) {
		char *fields[] = {frame(n) + FRAME_CODE, frame(n) + FRAME_PREVIOUS, code(n) + CODE_NAME,
				  code(n) + CODE_FILENAME, code(n) + CODE_LINES, code(n) + OBJECT_TYPE};
		point(fields[chance() % 6], nowhere());
		n = chance() % FRAMES;
		make_code(n);
		point(frame(n) + FRAME_CODE, code(n));
		point(frame(n) + FRAME_PREVIOUS, frame(n + 1));
	} else {
		put(frame(n) + FRAME_INSTRUCTION, (uintptr_t)code(n) + chance() % (1UL << 20));
		point(frame(n) + FRAME_CODE, codes);
	}
}

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) int _PyEval_EvalFrameDefault(const char *mode)
{
	for (;;) {
		for (double end = cpu_time() + 0.02; cpu_time() < end;)
			for (int i = 0; i < 1000; i++)
				scribble(mode);
		usleep(20000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_key_t key;

	alarm(600); /* it outlives a test that is killed by no more */
	if (argc < 2 || pthread_key_create(&key, NULL) || pthread_setspecific(key, thread))
		return 1;
	make();
	point(thread + THREAD_INTERPRETER, interpreter);
	point(thread + THREAD_CFRAME, cframe);
	point(cframe + CFRAME_FRAME, frames);
	point(interpreter + INTERPRETER_THREADS, thread);
	memcpy(_PyRuntime + RUNTIME_KEY, &key, sizeof(uint32_t));
	point(_PyRuntime + RUNTIME_INTERPRETERS, interpreter);
	return _PyEval_EvalFrameDefault(argv[1]);
}
