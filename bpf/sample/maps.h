/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The maps: key, value, writer, bound. */
#ifndef HEADWATER_MAPS_H
#define HEADWATER_MAPS_H

#include "../language/chain.h"
#include "../unwind/rule_cache.h"

/* A native frame of the sample that stands for frames of a language. */
struct slot {
	__u64 fp; /* its frame pointer */
	__u64 frame; /* its number, from the leaf on */
};

/* Copies of stacks that a CPU has made in a second. */
struct copy_limit {
	__u64 second; /* of CLOCK_MONOTONIC */
	__u64 made;
	__u64 words;
	__u64 parts; /* of deep stacks */
};

/* The part of a deep stack that is copied next. */
struct stack_part {
	__u64 next;   /* address; 0 if none */
	__u64 copied; /* parts copied so far */
	__u64 time;   /* of the sample that the parts belong to */
	__u64 packed; /* words of the part that are written */
};

/* The ends of the stack of the sample, and another stack to which its frame pointers lead. */
struct other_stack {
	__u64 stack;   /* address of the other stack; 0 if none */
	__u64 own_end; /* where the stack of the sample ends; 0 if not known */
	__u64 end;     /* where the other stack ends */
};

/* The native frames of the sample that stand for frames of a language. */
struct slots {
	__u64 wanted; /* the process's interpreter has slots, at these addresses of files: */
	__u64 low;
	__u64 high;
	__u64 count;
	struct slot at[MAX_SLOTS];
};

/* Code objects that a CPU has named in a second, and code objects that its sample has to name. */
struct code_limit {
	__u64 second; /* of CLOCK_MONOTONIC */
	__u64 named;
	__u64 unknown_count;
	__u64 unknown[MAX_SAMPLE_CODES]; /* frames of the sample with code objects to name */
};

/*
 * The counters of a CPU, the state of the sample that is being taken, and the samples. Samples are one after the other
 * from words[tail] to words[head]; after a sample that ends at or beyond RING_WORDS, the next one is at 0. BPF makes a
 * sample in place and then moves `head`. User space has the whole ring mapped, and moves `tail` after reading. Each has
 * one writer, so there are no locks and no copies.
 */
struct sample_ring {
	__u64 head;
	__u64 tail;
	__u64 next; /* where BPF writes: `head`, except while a sample of several parts is being made */
	struct counters counters;
	__u64 kind; /* enum sample_kind of the sample that is about to be taken */
	__u64 owner; /* in rings of bpf/sample/hit.h, whose programs may be preempted: the walking thread; 0 if none */
	struct copy_limit copies;
	struct stack_part part;
	struct other_stack other;
	struct unwinder unwinder;
	struct chain chain;
	struct slots slots;
	struct code_limit codes;
	struct cached_rule rules[CACHED_RULES] __attribute__((aligned(64)));
	__u64 words[RING_WORDS + SAMPLE_WORDS] __attribute__((aligned(4096)));
};
_Static_assert(sizeof(struct sample_ring) % 4096 == 0, "the rings of two CPUs share no page");

/*
 * Table memory: slab number -> slab. User space adds slabs and never replaces one; it writes them through mmap. BPF
 * writes only page marks.
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
 * Code objects that samples have named: the last four for each 1 << KNOWN_SHIFT bytes of memory, see known_near.
 * Written by BPF. If two CPUs write a word at the same time, one code object is lost, and is named again.
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
 * CPU -> ring of samples. It is not a per-CPU array, whose values are limited to 32 KiB. Its size is set to the number
 * of possible CPUs when loading.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_ring);
} sample_rings SEC(".maps");

/* Wakes user space to read the rings before it would do so. Written by BPF; its content does not matter. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WAKEUPS_BYTES);
} wakeups SEC(".maps");

/* The program that takes samples, for programs that only set their kind. Written by user space when it loads them. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} takers SEC(".maps");

/* enum config_flags; user space may change it at any time. */
volatile __u32 config = CONFIG_USER_STACKS | CONFIG_KERNEL_STACKS;

/*
 * Increases after a change of rows that walks may remember, see rule_cache.h; 0: they may remember none. Written by
 * user space.
 */
volatile __u32 row_changes = 1;

const volatile struct abi_enums abi_enums = {};

#endif
