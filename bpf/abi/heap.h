/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The records of memory that a program has allocated and not freed, for user space. */
#ifndef HEADWATER_HEAP_H
#define HEADWATER_HEAP_H

#include "../unwind/unwinder.h"

enum heap_limits {
	HEAP_BLOCKS = 65536, /* that are known at a time, of all processes */
	HEAP_CALLS = 16384, /* threads that are in an allocator at a time */
	HEAP_IGNORED = 16384, /* processes */
	HEAP_STACK_PAGES = 4, /* of the stack of a sample */
	HEAP_STACK_BYTES = HEAP_STACK_PAGES * STACK_PAGE,
	HEAP_RING_BYTES = 16 << 20, /* of the buffer: 1000 samples */
	HEAP_NESTED_CALLS = 16, /* in a call of an allocator; after more, that call was left, by an exception say */
};

/* Where a block is. */
struct heap_key {
	__u64 address;
	__u32 pid;
	__u32 unused;
};

/* A block that is in use, and was sampled. */
struct heap_block {
	__u64 time; /* CLOCK_MONOTONIC, ns: of its sample */
	__u64 weight; /* bytes that it stands for */
};

/* A call of an allocator that has not returned. */
struct heap_call {
	__u64 sp; /* at its entry */
	__u64 weight; /* bytes that the block will stand for; 0 if it is not sampled */
	__u64 result; /* where the function writes the address; 0: it returns it */
	__u32 nested; /* calls within it so far */
	__u32 unused;
	__u64 old_address; /* of the sampled block that realloc was given; 0 if none */
	struct heap_block old; /* that block */
};

/* A sample: the stack where a block was allocated. */
struct heap_sample {
	struct heap_key key;
	struct heap_block block;
	struct registers regs; /* where the allocator returns to */
	__u32 tid;
	__u32 cpu;
	__u32 stack_pages; /* that could be read, from the page of regs.sp on */
	__u8 lr_valid;
	__u8 full;
	__u16 unused;
	__u8 stack[HEAP_STACK_BYTES];
};
_Static_assert(sizeof(struct heap_sample) % 8 == 0, "records follow one another");

/* Traps of a process, since it was first seen or came back after a while. */
struct trap_counts {
	__u64 emulated; /* at instructions that the kernel emulates */
	__u64 stepped; /* at instructions that the CPU single-steps */
};

/* Blocks and calls that were not sampled, since the program was loaded. */
struct heap_counters {
	__u64 full; /* blocks: as many as HEAP_BLOCKS are in use */
	__u64 lost; /* blocks: the buffer had no room */
	__u64 busy; /* calls: as many as HEAP_CALLS had not returned */
};

/* Never read: it puts the types into BTF, from which the Go types are generated. */
struct heap_enums {
	enum heap_limits limits;
	struct heap_key key;
	struct heap_block block;
	struct heap_sample sample;
	struct heap_counters counters;
};

#endif
