/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The maps: key, value, who writes, bound. */
#ifndef HEADWATER_MAPS_H
#define HEADWATER_MAPS_H

#include "abi.h"

/* What one sample needs while it is taken. */
struct scratch {
	__u64 copy_second; /* the second, CLOCK_MONOTONIC, in which these were made: */
	__u64 copies;
	__u64 part;        /* address of the part of the stack to be copied next; 0: none */
	__u64 parts;       /* copied so far */
	__u64 other_stack; /* address of one that the frame pointers lead to; 0: none */
	struct unwinder unwinder;
	struct sample sample;
};

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
 * CPU -> scratch. Not a per-CPU array: their values end at 32 KiB. The size is
 * set to the number of possible CPUs when loading.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Samples to user space. The size is set when loading. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} samples SEC(".maps");

/* 0 -> counters of this CPU. Written by BPF. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

/* enum config_flags; user space may change it at any time. */
volatile __u32 config = CONFIG_USER_STACKS | CONFIG_KERNEL_STACKS;

const volatile struct abi_enums abi_enums = {};

#endif
