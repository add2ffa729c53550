/* Packs the pages of standard input, as many as a part of a stack has at most, to standard output. See stack_test.go. */
#include <stdio.h>

#include "sample/pack.h"

static __u64 part[MAX_PART_WORDS];

int main(void)
{
	__u64 end = 0;

	for (int page = 0; page < STACK_PAGES; page++) {
		if (fread(part + end + PAIR_BITS_WORDS, 1, STACK_PAGE, stdin) != STACK_PAGE)
			break;
		pack(part, end, &end);
	}
	return fwrite(part, 8, end, stdout) != end;
}
