/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The maps: key, value, who writes, bound. */
#ifndef HEADWATER_MAPS_H
#define HEADWATER_MAPS_H

#include "abi.h"

/*
 * What a CPU counts, needs while it takes a sample, and has taken. Samples lie one
 * behind the other from words[tail] to words[head], and the next one after a sample
 * that ends at or beyond LOG_WORDS at 0. BPF makes a sample in place and then moves
 * `head`; user space, which has all of it mapped, moves `tail` when it has read it. Each
 * has one writer, so nothing is locked or copied.
 */
struct log {
	__u64 head;
	__u64 tail;
	__u64 next; /* where BPF writes: `head`, but while a sample is in the making that has several parts */
	struct counters counters;
	__u64 copy_second; /* the second, CLOCK_MONOTONIC, in which these were made: */
	__u64 copies;
	__u64 all_parts;
	__u64 part;        /* address of the part of the stack to be copied next; 0: none */
	__u64 parts;       /* copied so far */
	__u64 part_time;   /* of the sample that they are parts of */
	__u64 packed;      /* words of the part that are written */
	__u64 other_stack; /* address of one that the frame pointers lead to; 0: none */
	__u64 stack_end;   /* above which this one has no frames; 0: not known */
	__u64 other_end;   /* that of the other one */
	struct unwinder unwinder;
	__u64 words[LOG_WORDS + SAMPLE_WORDS] __attribute__((aligned(4096)));
};
_Static_assert(sizeof(struct log) % 4096 == 0, "the logs of two CPUs share no page");

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

/*
 * CPU -> log. Not a per-CPU array: their values end at 32 KiB. The size is set to
 * the number of possible CPUs when loading.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct log);
} logs SEC(".maps");

/* Calls user space before it looks into the logs by itself. Written by BPF: numbers of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, CALLS_BYTES);
} calls SEC(".maps");

/* enum config_flags; user space may change it at any time. */
volatile __u32 config = CONFIG_USER_STACKS | CONFIG_KERNEL_STACKS;

const volatile struct abi_enums abi_enums = {};

#endif
