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

/* The blocks of one frame, as they were read. */
struct blocks {
	__u64 read; /* which of them could be read: a bit for each */
	__u64 words[ALL_BLOCK_WORDS];
};

/* A word of the blocks; 0 if its block could not be read. */
ALWAYS_INLINE __u64 word_of(const struct blocks *b, __u64 at)
{
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	at &= ALL_BLOCK_WORDS - 1;
	return b->read >> at / BLOCK_WORDS & 1 ? b->words[at] : 0;
}

/* Reads block i of a frame. */
ALWAYS_INLINE void read_block(struct blocks *b, const struct block *block, int i, __u64 frame)
{
	__u64 at = i ? word_of(b, block->at) & block->mask : frame;
	__u32 bytes = block->bytes;

	if (!at || bytes > BLOCK_WORDS * 8)
		return;
	BOUND_BYTES(bytes);
	if (!read_user(&b->words[i * BLOCK_WORDS], bytes, at + block->offset))
		b->read |= 1U << i;
}

/* Reads the blocks of a frame. */
ALWAYS_INLINE void read_blocks(struct blocks *b, const struct layout *l, __u64 frame)
{
	b->read = 0;
#pragma unroll /* 5.10 does not find bounds of a block's number that is in a register */
	for (int i = 0; i < MAX_BLOCKS; i++) {
		if (i >= l->block_count)
			break;
		read_block(b, &l->blocks[i], i, frame);
	}
}

/* Folds the words that change when the address of a code object is used for another; 0 if one could not be read. */
ALWAYS_INLINE __u64 cookie_of(const struct blocks *b, const struct layout *l)
{
	__u64 cookie = 1;

	for (int i = 0; i < MAX_COOKIE_WORDS; i++) {
		if (i >= l->cookie_count)
			break;
		__u64 at = l->cookie[i].at & (ALL_BLOCK_WORDS - 1);

		if (!(b->read >> at / BLOCK_WORDS & 1))
			return 0;
		cookie = (cookie ^ (word_of(b, at) & l->cookie[i].mask)) * 0x9e3779b97f4a7c15ULL;
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
	return word_of(b, l->words[code].at) & l->words[code].mask & l->code_mask;
}

#endif
