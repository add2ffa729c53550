/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reads the words of a frame that a language runtime keeps itself. */
#ifndef HEADWATER_LAYOUT_H
#define HEADWATER_LAYOUT_H

#include "../unwind/unwinder.h"

enum {
	PLACE_BITS = 4,
	BLOCK_PLACES = 1 << PLACE_BITS, /* of each block, that many are remembered in a sample */
	FRAME_WINDOW_WORDS = BLOCK_PLACES * BLOCK_WORDS, /* a power of two, of at most a page */
	FRAME_WINDOW_BYTES = FRAME_WINDOW_WORDS * 8,
	ALL_BLOCK_WORDS = MAX_BLOCKS * FRAME_WINDOW_WORDS,
	/* Layouts with more words than that are read in a second step. Without loops a frame takes a tenth less time. */
	FEW_WORDS = 4,
};

#define UNROLL _Pragma("clang loop unroll(full)")

/* For a number of bytes that is passed to a helper: 5.10 forgets the bound that was checked before. */
#define BOUND_BYTES(bytes)                      \
	do {                                    \
		asm volatile("" : "+r"(bytes)); \
		(bytes) &= 255;                 \
	} while (0)

/*
 * The blocks of one frame, and blocks of earlier frames, which may be met again. A block that could not be read is 0.
 * Each block has FRAME_WINDOW_WORDS of `words`: block 0 has a window of frames that were read at once, the other blocks
 * have BLOCK_PLACES places.
 */
struct blocks {
	__u64 read; /* the blocks that could be read: a bit for each */
	__u64 first[MAX_BLOCKS]; /* the first word of each block */
	__u64 words[ALL_BLOCK_WORDS + BLOCK_WORDS]; /* room for a block that starts in the last word */
	__u64 pointers[MAX_BLOCKS * BLOCK_PLACES]; /* pointers to the blocks that could be read */
	__u64 last; /* address of the last frame's block 0 */
	__u64 window_base; /* address of the window of block 0 */
	__u64 frame[MAX_LAYOUT_WORDS]; /* the words of the layout */
};

/* In no process's memory: reading it fails, and leaves zeros. */
#define NOWHERE (~0ULL)

/* The start of a block. */
ALWAYS_INLINE const __u64 *block_begin(const struct blocks *b, __u64 block)
{
	asm volatile("" : "+r"(block)); /* else clang drops the masks, which the verifier wants */
	__u64 at = b->first[block & (MAX_BLOCKS - 1)];
	asm volatile("" : "+r"(at));
	return &b->words[at & (ALL_BLOCK_WORDS - 1)];
}

ALWAYS_INLINE __u64 word_at(const struct blocks *b, __u64 at)
{
	return block_begin(b, at / BLOCK_WORDS)[at % BLOCK_WORDS];
}

/* Reads words one after the other. Most are in the same block as the word before. */
struct word_reader {
	const struct blocks *blocks;
	const __u64 *begin; /* of the block that the last word was in */
	__u64 block;
};

ALWAYS_INLINE struct word_reader read_words(const struct blocks *b, __u64 block)
{
	return (struct word_reader){ b, block_begin(b, block), block };
}

ALWAYS_INLINE __u64 word_of(struct word_reader *r, const struct block_word *w)
{
	__u64 at = w->at;

	if (w->block != r->block) {
		r->block = w->block;
		r->begin = block_begin(r->blocks, r->block);
	}
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	return *(const __u64 *)((const char *)r->begin + (at & (BLOCK_WORDS - 1) * 8)) & w->mask;
}

/* Forgets the frames that were read before. */
ALWAYS_INLINE void begin_blocks(struct blocks *b)
{
	__builtin_memset(b->pointers, 0, sizeof(b->pointers));
	b->last = EMPTY_WINDOW;
	b->window_base = EMPTY_WINDOW;
}

/*
 * Reads block 0. The cost of a read hardly depends on its size, and the frames of many interpreters are next to each
 * other: so a window of several frames is read. It is aligned, so that it needs no page that the block is not in.
 */
ALWAYS_INLINE int read_first_block(struct blocks *b, __u64 addr, __u32 bytes)
{
	__u64 at = addr - b->window_base;
	int near = addr - b->last + FRAME_WINDOW_BYTES < 2 * FRAME_WINDOW_BYTES;

	b->last = addr;
	b->first[0] = 0;
	if (at > FRAME_WINDOW_BYTES - bytes || b->window_base == EMPTY_WINDOW) {
		at = addr & (FRAME_WINDOW_BYTES - 1);
		b->window_base = addr - at;
		if (!near || at > FRAME_WINDOW_BYTES - bytes ||
		    read_user(b->words, FRAME_WINDOW_BYTES, b->window_base)) {
			b->window_base = EMPTY_WINDOW;
			return read_user(b->words, bytes, addr);
		}
	}
	if (at & 7) {
		b->window_base = EMPTY_WINDOW;
		return read_user(b->words, bytes, addr);
	}
	b->first[0] = at / 8;
	return 0;
}

/*
 * Reads another block, whose pointer is in an earlier one. If an earlier frame of this sample had the block, it may
 * still be there: deep stacks are often a few functions that call each other.
 */
ALWAYS_INLINE int read_block(struct blocks *b, const struct block *block, int i)
{
	__u64 at = word_at(b, block->at) & block->mask;
	__u64 place = i * BLOCK_PLACES + (at * GOLDEN >> (64 - PLACE_BITS));
	__u32 bytes = block->bytes;

	asm volatile("" : "+r"(place)); /* else clang drops the mask, which the verifier wants */
	place &= MAX_BLOCKS * BLOCK_PLACES - 1;
	b->first[i] = place * BLOCK_WORDS;
	if (at && at == b->pointers[place])
		return 0;
	BOUND_BYTES(bytes);
	int end = read_user(&b->words[place * BLOCK_WORDS], bytes, at ? at + block->offset : NOWHERE);

	b->pointers[place] = end ? 0 : at;
	return end;
}

/* Reads the blocks of a frame. */
ALWAYS_INLINE void read_blocks(struct blocks *b, const struct layout *l, __u64 frame)
{
	__u32 bytes = l->blocks[0].bytes;

	BOUND_BYTES(bytes);
	__u64 read = !read_first_block(b, frame + l->blocks[0].offset, bytes);
	for (int i = 1; i < MAX_BLOCKS; i++) {
		if (i >= l->block_count)
			break;
		if (!read_block(b, &l->blocks[i], i))
			read |= 1U << i;
	}
	b->read = read;
	struct word_reader r = read_words(b, 0);
	UNROLL for (int i = 0; i < FEW_WORDS; i++)
		b->frame[i] = word_of(&r, &l->words[i]);
	if (l->word_count > FEW_WORDS) {
		UNROLL for (int i = FEW_WORDS; i < MAX_LAYOUT_WORDS; i++)
			b->frame[i] = word_of(&r, &l->words[i]);
	}
}

/* Folds the words that change when the address of a code object is reused; 0 if one could not be read. */
ALWAYS_INLINE __u64 cookie_of(const struct blocks *b, const struct layout *l)
{
	__u64 cookie = 1, factor = GOLDEN;

	if (l->cookie_blocks & ~b->read)
		return 0;
	struct word_reader r = read_words(b, l->cookie[0].block);
	UNROLL for (int i = 0; i < FEW_WORDS; i++, factor *= GOLDEN)
		cookie += word_of(&r, &l->cookie[i]) * factor;
	if (l->cookie_count > FEW_WORDS) {
		UNROLL for (int i = FEW_WORDS; i < MAX_COOKIE_WORDS; i++, factor *= GOLDEN)
			cookie += word_of(&r, &l->cookie[i]) * factor;
	}
	return cookie ^ cookie >> 32;
}

/* The address of the code object of a frame; 0 if none. */
ALWAYS_INLINE __u64 code_of(const struct blocks *b, const struct layout *l)
{
	__u32 code = l->code;

	return code < MAX_LAYOUT_WORDS ? b->frame[code] & l->code_mask : 0;
}

#endif
