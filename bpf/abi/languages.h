/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How the frames of language runtimes are found. */
#ifndef HEADWATER_ABI_LANGUAGES_H
#define HEADWATER_ABI_LANGUAGES_H

#include "limits.h"

/* The effect of a step of the path to the first frame of a chain on the address `at`, which is 0 at the start. */
enum path_op {
	PATH_NONE = 0,
	PATH_GLOBAL = 1,         /* bias + offset */
	PATH_THREAD_POINTER = 2, /* thread pointer + offset */
	PATH_LOAD = 3,           /* *(at + offset) */
	PATH_INDEX = 4,          /* at + scale * *(__u32 *)(bias + offset), which must be below limit */
	PATH_ADD = 5,            /* at + offset */
	PATH_ABSOLUTE = 6,       /* offset */
	/*
	 * *(bias + offset), the thread state that the interpreter runs, if the word at `scale` in it is the thread pointer:
	 * then the next `limit` steps are left out.
	 */
	PATH_RUNNING = 7,
};

struct path_step {
	__s64 offset;
	__u32 scale;
	__u32 limit;
	__u64 op;
};

/*
 * Memory that is read at once: the first block at the frame, each further one where a word of an earlier one points to.
 */
struct block {
	__s64 offset;
	__u64 mask; /* of the pointer */
	__u32 bytes;
	__u8 at; /* the pointer, a word of an earlier block: BLOCK_WORDS * block + its number there */
	__u8 unused[3];
};

/* A word of the blocks. In the words and the cookie of a layout, the entries beyond its counts have a mask of 0. */
struct block_word {
	__u64 mask;
	__u32 block;
	__u32 at; /* offset in the block, in bytes */
};

/* Bytes that name a code object. */
struct text {
	__s64 offset;
	__u64 mask; /* of the pointer */
	__u32 bytes;
	__u32 at; /* the pointer, as in struct block */
};

/* The data that is read of a frame, or of a slot. */
struct layout {
	struct block blocks[MAX_BLOCKS];
	struct block_word words[MAX_LAYOUT_WORDS];
	struct block_word cookie[MAX_COOKIE_WORDS];
	struct text texts[MAX_TEXTS];
	__u64 code_mask;
	__u8 block_count;
	__u8 word_count;
	__u8 cookie_count;
	__u8 text_count;
	__u8 code; /* index in words of the code object; NO_WORD if none */
	__u8 cookie_blocks; /* a bit for each block that has words of the cookie */
	__u8 unused[2];
};

enum { NO_WORD = 255 };

enum thread_owner {
	OWNER_NONE = 0, /* no list is searched */
	OWNER_THREAD_POINTER = 1,
	OWNER_TID = 2,
};

/*
 * How to find the callers that a runtime keeps in its heap, see frozen.h. Numbers are offsets in bytes, unless the
 * comment gives another unit. Field names follow the Java VM.
 */
struct frozen {
	__s64 descriptor; /* from the thread pointer: a pointer to the thread's descriptor; 0: no callers are found */
	__u64 entry_pc; /* address in the runtime's file: where the outermost frame returns to */
	__u64 bad_bits; /* address in the runtime's file: a mask of the bits that a valid reference lacks; 0: none */
	__u64 color_shift; /* address in the runtime's file: the bits of a reference below the address; 0: none */
	__u64 base; /* added to a reference of 4 bytes */
	__u64 class_mask; /* word class_at of a chunk is `class` in these bits */
	__u64 class;
	/* in the descriptor: */
	__u16 os_thread; /* a pointer, to ... */
	__u16 os_thread_own; /* ... the thread pointer */
	__u16 entry; /* a pointer to the entry of the thread's continuation on the stack */
	__u16 last_sp; /* the runtime's own note of the innermost frame */
	__u16 carrier; /* a pointer to a reference to the object of the thread */
	__u16 entry_bytes; /* size of the entry */
	/* in objects: */
	__u16 continuation; /* of a thread */
	__u16 outer; /* of a continuation */
	__u16 chunk; /* of a continuation */
	/* in a chunk: */
	__u16 class_at;
	__u16 chunk_parent;
	__u16 chunk_size; /* in words, as the next two */
	__u16 chunk_sp;
	__u16 chunk_bottom;
	__u16 chunk_stack;
	__u16 locals_below; /* the frame pointer of an interpreted frame */
	__u8 bottom_from_end; /* chunk_bottom counts from the end of the stack */
	__u8 reference_bytes; /* of a field: 4 or 8 */
	__u8 shift; /* of a reference of 4 bytes */
	__u8 unused[5];
};
_Static_assert(sizeof(struct frozen) == 96, "frozen");

/* Value of the map `interpreters`: how to find the frames that a language runtime keeps itself. */
struct interpreter {
	__u32 id; /* for user space: never used again */
	__u8 start_count; /* steps before the list is searched */
	__u8 step_count;
	__u8 owner; /* enum thread_owner */
	__u8 next; /* index in words of the pointer to the caller; NO_WORD: by stride */
	struct path_step steps[MAX_STEPS];
	__s64 node_word; /* of the list: offset in a node of the word that identifies its thread, ... */
	__s64 node_add; /* ... as the thread pointer and this number */
	__s64 node_next;
	__u64 next_mask;
	__s64 next_offset; /* or stride */
	__u64 stop_mask; /* of word `stop`: a frame with stop_value there ends the chain, and is not taken */
	__u64 stop_value;
	__u64 stop; /* NO_WORD: none */
	/*
	 * Not 0: there is no chain. The frames are native ones, in no file or in [slots_low, slots_high) of a file, and
	 * the layout is at their frame pointers.
	 */
	__u64 slots;
	__u64 slots_low;
	__u64 slots_high;
	struct layout frame;
	struct frozen frozen;
};
_Static_assert(sizeof(struct interpreter) % 8 == 0, "interpreter");

/* Key and value of the map `programs`: files whose processes all have the same interpreter. */
struct program_key {
	__u64 inode;
	__u32 dev; /* in the kernel's format */
	__u32 unused;
};

struct program {
	__u64 start_code; /* mm->start_code, less the bias */
	__u32 interpreter;
	__u32 unused;
};

/* How the reading of a chain ended; ebpf/language has the same numbers. */
enum chain_end {
	CHAIN_NONE = 0, /* none was read */
	CHAIN_WHOLE = 1, /* the last frame has no caller */
	CHAIN_NO_THREAD = 2, /* the interpreter runs no code in this thread: a zero on the path */
	CHAIN_NO_START = 3, /* the path to the first frame cannot be read */
	CHAIN_THREAD_NOT_FOUND = 4, /* in the list of threads */
	CHAIN_UNREADABLE = 5, /* a frame */
	CHAIN_TOO_LONG = 6, /* MAX_CHAIN_FRAMES, or no room in the sample */
	CHAIN_FIRST_STATE = 7, /* as CHAIN_WHOLE, but PATH_RUNNING did not lead to the thread: it may have another state */
	CHAIN_ENDS,
};

#endif
