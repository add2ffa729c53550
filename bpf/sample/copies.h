/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The maps of the stacks that are copied when threads leave a CPU. The programs that include it share them. */
#ifndef HEADWATER_COPIES_H
#define HEADWATER_COPIES_H

#include "../abi/threads.h"

/* The room for the stack of a thread, by its ID. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_COPIED);
	__type(key, __u32);
	__type(value, __u32);
} rooms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_COPIED);
	__type(key, __u32);
	__type(value, struct copied_stack);
} copied_stacks SEC(".maps");

/* The number of the watch that is under way; 0 if none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} watches SEC(".maps");

ALWAYS_INLINE __u32 current_watch(void)
{
	__u32 zero = 0, *watch = bpf_map_lookup_elem(&watches, &zero);

	return watch ? *watch : 0;
}

ALWAYS_INLINE struct copied_stack *copied_stack_of(__u32 tid)
{
	__u32 *room = bpf_map_lookup_elem(&rooms, &tid);

	return room ? bpf_map_lookup_elem(&copied_stacks, room) : NULL;
}

#endif
