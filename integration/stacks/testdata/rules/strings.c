/* The C library's string functions, of many lengths and alignments: hand-written assembly, most of it leaf functions. */
#include <string.h>

#include "work.h"

static char text[70000], copy[70000];

FRAME unsigned long strings(unsigned long at)
{
	unsigned long sum = 0;
	for (unsigned long size = 1; size < 60000; size = size * 3 / 2 + 1) {
		unsigned long from = at & 63, to = at >> 6 & 63;
		memset(text + from, 'x', size);
		text[from + size] = 0;
		sum += strlen(text + from);
		memcpy(copy + to, text + from, size + 1);
		memmove(copy + to + 1, copy + to, size + 1);
		sum += memcmp(copy + to, text + from, size) + (strchr(text + from, 'y') != NULL) + (strrchr(text + from, 'x') != NULL);
		sum += strcmp(text + from, copy + to) + (memchr(text + from, 'z', size) != NULL) + strncmp(text + from, copy + to, size);
		sum += (strstr(text + from, "xxy") != NULL) + strspn(text + from, "x") + (stpcpy(copy + to, text + from) != NULL);
	}
	return sum;
}

int main(int argc, char **argv)
{
	(void)argc;
	unsigned long sum = 0, at = 0;
	FOR_SECONDS(atof(argv[1])) sum += strings(at++);
	return sum == 42;
}
