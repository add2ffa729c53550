/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Limits that the kernel side and user space share. */
#ifndef HEADWATER_ABI_LIMITS_H
#define HEADWATER_ABI_LIMITS_H

#include <linux/types.h>

/*
 * Unwind tables, page directories and mappings are in "table memory": slabs of 64-bit words, addressed by one 32-bit
 * word index. A run of words never crosses a slab, so a search needs one slab pointer and no helper call for each step.
 * Word 0 is never used: index 0 means "none".
 */
enum limits {
	SLAB_SHIFT = 18,
	SLAB_WORDS = 1 << SLAB_SHIFT, /* 2 MiB a slab */
	SLAB_MASK = SLAB_WORDS - 1,
	MAX_SLABS = 1024,
	WORD_BITS = 28, /* of a word index */
	WORD_MASK = (1 << WORD_BITS) - 1,

	MIN_ROW_PAGE_SHIFT = 12, /* a page of rows covers 4 KiB of text, ... */
	MAX_ROW_PAGE_SHIFT = 16, /* ... up to 64 KiB, by the executable's choice */

	MAX_USER_FRAMES = 1024,
	MAX_KERNEL_FRAMES = 127, /* kernel.perf_event_max_stack */
	MAX_PROCESSES = 65536,

	MAPPING_WORDS = 4, /* words of one struct mapping */
	FRAME_WORDS = 2,   /* words of one struct frame */
	GENERAL_REGISTERS = 16,
	COMM_LEN = 16,

	/* A power of two above the words of all frames, and of the frames that a language runtime keeps itself. */
	MAX_FRAME_WORDS = 8192,
	STACK_PAGE = 4096, /* a copied stack is read in pieces of this size, ... */
	STACK_PAGES = 16,  /* ... this many at most */
	MAX_STACK_BYTES = STACK_PAGE * STACK_PAGES, /* of a copied user stack */
	MAX_COPIES = 1200, /* of stacks, per second and CPU, ... */
	MAX_COPIED_WORDS = 256 * MAX_STACK_BYTES / 8, /* ... and their words */
	MAX_PARTS = 32, /* of a deep stack, that follow the copy, ... */
	MAX_PARTS_TO_UNKNOWN = 8, /* ... if its end is not known, ... */
	MAX_ALL_PARTS = 1024, /* ... and of all stacks, per second and CPU */
	PAIR_WORDS = 2, /* a part is packed: it has only the pairs of words that are not zero, ... */
	PAIR_BITS_WORDS = STACK_PAGE / 8 / PAIR_WORDS / 64, /* ... and words with a bit for each pair of a page */
	MAX_PART_WORDS = STACK_PAGES * (PAIR_BITS_WORDS + STACK_PAGE / 8),
	MAX_RECORDS_TO_OTHER_STACK = 64,
	FRAMES_WITHOUT_POINTER = 32768, /* of stack, for the frames at a thread's start */
	RING_WORDS = 65536, /* of a CPU's ring, in which samples start ... */
	SAMPLE_WORDS = 16896, /* ... and most words of a sample, which may end beyond the ring's words */
	RING_RESERVE = RING_WORDS / 4, /* words that copies of stacks leave free for samples */
	RING_WAKEUP = RING_WORDS / 8, /* words in a ring for which user space is woken */
	WAKEUPS_BYTES = 4096, /* of memory for wakeups: a page */

	MAX_INTERPRETERS = 256, /* known at a time, from 1 on */
	MAX_PROGRAMS = 256,     /* files that are known to be programs of interpreters */
	MAX_STEPS = 8,          /* to the first frame of a chain */
	MAX_NODES = 1024,       /* that are searched in a list of threads */
	MAX_CHAIN_FRAMES = 1024,
	MAX_SLOTS = 256,        /* native frames of a sample that stand for frames of a language */
	MAX_BLOCKS = 8,         /* that are read of a frame */
	BLOCK_WORDS = 16,       /* of each block at most */
	MAX_LAYOUT_WORDS = 6,   /* of a frame that go with the sample, and its cookie */
	MAX_COOKIE_WORDS = 8,
	MAX_TEXTS = 3,          /* that name a code object, ... */
	MAX_TEXT_BYTES = 192,   /* ... of at most this many bytes each */
	MAX_SAMPLE_CODES = 32,  /* code objects that a sample names, ... */
	MAX_CODES = 4096,       /* ... and a CPU names in a second */
	KNOWN_SHIFT = 8,        /* for each 256 bytes of memory, the last four named code objects are known */
	KNOWN_BITS = 13,
	KNOWN_WORDS = 1 << KNOWN_BITS,
	REFERENCE_COLOR_BITS = 16, /* at most, below the address in a reference of 64 bits */
	RED_ZONE = 128, /* bytes below sp where a leaf of x86-64 may keep data, and an epilogue may have left some */
};

#endif
