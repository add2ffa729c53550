/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The map of the places of threads that user space knows. The programs that include it share the map. */
#ifndef HEADWATER_MARKS_H
#define HEADWATER_MARKS_H

#include "../abi/threads.h"

/* By thread ID. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_MARKS);
	__type(key, __u32);
	__type(value, struct thread_mark);
} marks SEC(".maps");

#endif
