/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reads the words of a frame that a language runtime keeps itself. */
#ifndef HEADWATER_LAYOUT_H
#define HEADWATER_LAYOUT_H

#include "unwinder.h"

enum { ALL_BLOCK_WORDS = MAX_BLOCKS * BLOCK_WORDS };

/* Where a number of bytes is handed to a helper: 5.10 forgets the bound that was checked before. */
#define BOUND_BYTES(bytes)                      \
	do {                                    \
		asm volatile("" : "+r"(bytes)); \
		(bytes) &= 255;                 \
	} while (0)

/* The blocks of one frame. What could not be read is 0. */
struct blocks {
	__u64 read; /* which of them could be read: a bit for each */
	__u64 words[ALL_BLOCK_WORDS];
};

/* In no process's memory: reading it fails, and leaves zeros. */
#define NOWHERE (~0ULL)

ALWAYS_INLINE __u64 word_at(const struct blocks *b, __u64 at)
{
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	return b->words[at & (ALL_BLOCK_WORDS - 1)];
}

ALWAYS_INLINE __u64 word_of(const struct blocks *b, const struct block_word *w)
{
	return word_at(b, w->at) & w->mask;
}

/* Reads the blocks of a frame. */
ALWAYS_INLINE void read_blocks(struct blocks *b, const struct layout *l, __u64 frame)
{
	b->read = 0;
	for (int i = 0; i < MAX_BLOCKS; i++) {
		if (i >= l->block_count)
			break;
		const struct block *block = &l->blocks[i];
		__u64 at = i ? word_at(b, block->at) & block->mask : frame;
		__u32 bytes = block->bytes;

		BOUND_BYTES(bytes);
		if (!read_user(&b->words[i * BLOCK_WORDS], bytes, at ? at + block->offset : NOWHERE))
			b->read |= 1U << i;
	}
}

/* Folds the words that change when the address of a code object is used for another; 0 if one could not be read. */
ALWAYS_INLINE __u64 cookie_of(const struct blocks *b, const struct layout *l)
{
	__u64 cookie = 1;

	if (l->cookie_blocks & ~b->read)
		return 0;
	for (int i = 0; i < MAX_COOKIE_WORDS; i++) {
		if (i >= l->cookie_count)
			break;
		cookie = (cookie ^ word_of(b, &l->cookie[i])) * 0x9e3779b97f4a7c15ULL;
		cookie ^= cookie >> 32;
	}
	return cookie;
}

/* The address of the code object of a frame; 0: none. */
ALWAYS_INLINE __u64 code_of(const struct blocks *b, const struct layout *l)
{
	__u32 code = l->code;

	if (code >= MAX_LAYOUT_WORDS)
		return 0;
	return word_of(b, &l->words[code]) & l->code_mask;
}

#endif
