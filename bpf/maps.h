/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The maps: key, value, who writes, bound. */
#ifndef HEADWATER_MAPS_H
#define HEADWATER_MAPS_H

#include "chain.h"
#include "rule_cache.h"

/* A native frame of the sample that stands for frames of a language. */
struct slot {
	__u64 fp; /* its frame pointer */
	__u64 frame; /* its number, from the leaf on */
};

/*
 * What a CPU counts, needs while it takes a sample, and has taken. Samples lie one
 * after the other from words[tail] to words[head], and the next one after a sample
 * that ends at or beyond RING_WORDS at 0. BPF makes a sample in place and then moves
 * `head`; user space, which has all of it mapped, moves `tail` when it has read it. Each
 * has one writer, so nothing is locked or copied.
 */
struct sample_ring {
	__u64 head;
	__u64 tail;
	__u64 next; /* where BPF writes: `head`, except while a sample of several parts is being made */
	struct counters counters;
	__u64 kind; /* enum sample_kind of the sample that is about to be taken */
	__u64 owner; /* of those of bpf/hit.h, which may be preempted: the thread that is under way; 0: none */
	__u64 copy_second; /* the second, CLOCK_MONOTONIC, in which these were made: */
	__u64 copies;
	__u64 copied_words;
	__u64 all_parts;
	__u64 part;        /* address of the part of the stack to be copied next; 0: none */
	__u64 parts;       /* copied so far */
	__u64 part_time;   /* of the sample that they are parts of */
	__u64 packed;      /* words of the part that are written */
	__u64 other_stack; /* address of one that the frame pointers lead to; 0: none */
	__u64 stack_end;   /* where this stack ends; 0: not known */
	__u64 other_end;   /* where the other one ends */
	struct unwinder unwinder;
	struct chain chain;
	__u64 slots_wanted; /* the interpreter of the process has them, in these addresses of files: */
	__u64 slots_low;
	__u64 slots_high;
	__u64 slot_count; /* of the sample */
	struct slot slots[MAX_SLOTS];
	__u64 code_second; /* the second, CLOCK_MONOTONIC, in which these were named: */
	__u64 codes;
	__u64 unknown_count; /* frames of this sample whose code objects are to be named: */
	__u64 unknown[MAX_SAMPLE_CODES];
	struct cached_rule rules[CACHED_RULES] __attribute__((aligned(64)));
	__u64 words[RING_WORDS + SAMPLE_WORDS] __attribute__((aligned(4096)));
};
_Static_assert(sizeof(struct sample_ring) % 4096 == 0, "the rings of two CPUs share no page");

/*
 * Table memory: slab number -> slab. User space adds slabs and never replaces
 * one; it writes them through mmap. BPF writes page marks only.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_SLABS);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(map_flags, BPF_F_MMAPABLE);
		__uint(max_entries, 1);
		__type(key, __u32);
		__uint(value_size, sizeof(struct slab));
	});
} slabs SEC(".maps");

/* PID -> its mappings. Written by user space. NO_PREALLOC where the kernel allows it here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

/* Number -> interpreter, from 1 on. Written by user space before a process or a program refers to it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_INTERPRETERS);
	__type(key, __u32);
	__type(value, struct interpreter);
} interpreters SEC(".maps");

/* File of a program -> the interpreter of all its processes. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PROGRAMS);
	__type(key, struct program_key);
	__type(value, struct program);
} programs SEC(".maps");

/*
 * Code objects that samples have named: the last four of each 1 << KNOWN_SHIFT bytes of memory, see known_near. Written by BPF. Two
 * CPUs that write a word at once forget one of them, which is then named twice.
 */
struct known_codes {
	__u64 tags[KNOWN_WORDS];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known_codes);
} known_codes SEC(".maps");

/*
 * CPU -> ring of samples. Not a per-CPU array: their values end at 32 KiB. The size is set to
 * the number of possible CPUs when loading.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_ring);
} sample_rings SEC(".maps");

/* Wakes user space before it looks into the rings by itself. Written by BPF; what is in it does not matter. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WAKEUPS_BYTES);
} wakeups SEC(".maps");

/* The program that takes samples, for those that only say what they are of. Written by user space when it loads them. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} takers SEC(".maps");

/* enum config_flags; user space may change it at any time. */
volatile __u32 config = CONFIG_USER_STACKS | CONFIG_KERNEL_STACKS;

/*
 * Grows after rows of a page have changed that walks may remember, see rule_cache.h; 0: they may remember none. Written
 * by user space.
 */
volatile __u32 row_changes = 1;

const volatile struct abi_enums abi_enums = {};

#endif
