/* Goes once through code of all kinds, to be looked at after every instruction. Bound lazily. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#define main unused
#include "prologue.c"
#undef main
#define main unused_too
#define TURNS_OF_TAIL "3"
#include "handwritten.c"
#undef main

static jmp_buf back;

FRAME int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

FRAME void leave(int code) { longjmp(back, code); }

FRAME int sorted(void)
{
	char *words[] = {"river", "headwater", "brook", "stream", "delta"};
	char text[100];
	qsort(words, 5, sizeof words[0], compare);
	snprintf(text, sizeof text, "%s %5.2f %d", words[1], 3.25, 42);
	return strlen(text);
}

int main(void)
{
	char *memory = malloc(300000);
	memset(memory, 1, 300000);
	free(memory);
	if (!setjmp(back))
		leave(sorted());
	hand_leaf(3);
	hand_pushes(5);
	hand_aligned(3);
	hand_unrolled(2);
	hand_tail(3);
	hand_based(2);
	unsigned long sum = 0;
	for (int i = 0; i < FUNCTIONS; i++)
		sum += drive(functions[i], 3);
	return sum + time(NULL) == 42;
}
