/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Packs pages of a stack. The data of a large frame is mostly zeros, in whole pages or among other words: zeros take no
 * room in a ring.
 */
#ifndef HEADWATER_PACK_H
#define HEADWATER_PACK_H

#include "../abi/abi.h"

enum { STACK_PAGE_WORDS = STACK_PAGE / 8, LINE_WORDS = 8 /* of memory: most are all zero or all in use */ };
_Static_assert(64 * PAIR_WORDS % LINE_WORDS == 0, "a word of bits is of whole lines");

/*
 * Packs the page that was read to part[at + PAIR_BITS_WORDS], in place: bits from part[at] on, then the pairs that are
 * not zero. *end is set to their end. It is read again for each line, so that the verifier does not follow every path
 * to it; to[] never overtakes line[].
 */
static inline __attribute__((always_inline)) void pack(__u64 *part, __u64 at, __u64 *end)
{
	const __u64 *line = part + at + PAIR_BITS_WORDS;

	*end = at + PAIR_BITS_WORDS;
	for (int i = 0; i < PAIR_BITS_WORDS; i++) {
		__u64 bits = 0;

		for (int bit = 0; bit < 64; bit += LINE_WORDS / PAIR_WORDS, line += LINE_WORDS) {
			if (!(line[0] | line[1] | line[2] | line[3] | line[4] | line[5] | line[6] | line[7]))
				continue;
			__u64 to = *(volatile __u64 *)end;

			if (to > MAX_PART_WORDS)
				return;
			for (int pair = 0; pair < LINE_WORDS / PAIR_WORDS; pair++) {
				__u64 low = line[PAIR_WORDS * pair], high = line[PAIR_WORDS * pair + 1],
				      either = low | high;
				__u64 used = (either | -either) >> 63;

				part[to] = low;
				part[to + 1] = high;
				bits |= used << (bit + pair);
				to += PAIR_WORDS * used;
			}
			*(volatile __u64 *)end = to;
		}
		part[at + i] = bits;
	}
}

#endif
