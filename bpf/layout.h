/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reads the words of a frame that a language runtime keeps itself. */
#ifndef HEADWATER_LAYOUT_H
#define HEADWATER_LAYOUT_H

#include "unwinder.h"

enum {
	ALL_BLOCK_WORDS = MAX_BLOCKS * BLOCK_WORDS,
	FRAME_WINDOW_WORDS = 128, /* a power of two, of at most a page */
	FRAME_WINDOW_BYTES = FRAME_WINDOW_WORDS * 8,
};

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
	__u64 pointers[MAX_BLOCKS]; /* what led to the blocks that could be read */
	__u64 last; /* address of the last frame's block 0 */
	__u64 window_base; /* address of window[0] */
	__u64 window[FRAME_WINDOW_WORDS]; /* frames that were read at once */
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

/* Forgets the frames that were read before. */
ALWAYS_INLINE void begin_blocks(struct blocks *b)
{
	__builtin_memset(b->pointers, 0, sizeof(b->pointers));
	b->last = EMPTY_WINDOW;
	b->window_base = EMPTY_WINDOW;
}

/*
 * Reads block 0. What a read costs hardly depends on its size, and the frames of many interpreters lie next to each
 * other: so a window of several is read. It is aligned, so that it needs no page that the block is not in.
 */
ALWAYS_INLINE int read_first_block(struct blocks *b, __u64 addr, __u32 bytes)
{
	__u64 at = addr - b->window_base;
	int near = addr - b->last + FRAME_WINDOW_BYTES < 2 * FRAME_WINDOW_BYTES;

	b->last = addr;
	if (at > FRAME_WINDOW_BYTES - bytes) {
		at = addr & (FRAME_WINDOW_BYTES - 1);
		b->window_base = addr - at;
		if (!near || at > FRAME_WINDOW_BYTES - bytes ||
		    read_user(b->window, FRAME_WINDOW_BYTES, b->window_base)) {
			b->window_base = EMPTY_WINDOW;
			return read_user(b->words, bytes, addr);
		}
	}
	if (at & 7)
		return read_user(b->words, bytes, addr);
	at /= 8;
	for (__u32 i = 0; i < BLOCK_WORDS; i++) {
		if (i * 8 >= bytes)
			break;
		asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
		b->words[i] = b->window[(at + i) & (FRAME_WINDOW_WORDS - 1)];
	}
	return 0;
}

/* Reads another block, whose pointer is in one before. If it is that of the last frame, nothing has to be read. */
ALWAYS_INLINE int read_block(struct blocks *b, const struct block *block, int i)
{
	__u64 at = word_at(b, block->at) & block->mask;
	__u32 bytes = block->bytes;

	if (at && at == b->pointers[i])
		return 0;
	BOUND_BYTES(bytes);
	int end = read_user(&b->words[i * BLOCK_WORDS], bytes, at ? at + block->offset : NOWHERE);

	b->pointers[i] = end ? 0 : at;
	return end;
}

/* Reads the blocks of a frame. */
ALWAYS_INLINE void read_blocks(struct blocks *b, const struct layout *l, __u64 frame)
{
	__u32 bytes = l->blocks[0].bytes;

	BOUND_BYTES(bytes);
	b->read = !read_first_block(b, frame + l->blocks[0].offset, bytes);
	for (int i = 1; i < MAX_BLOCKS; i++) {
		if (i >= l->block_count)
			break;
		if (!read_block(b, &l->blocks[i], i))
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
