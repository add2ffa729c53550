/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The record of the task that ended the wait of a thread, for user space. */
#ifndef HEADWATER_WAKERS_H
#define HEADWATER_WAKERS_H

#include "threads.h"

/* After the head are kernel_frames addresses, leaf first. */
struct waker {
	__u64 started; /* with switches and tid, the identity of the wait, as in struct thread */
	__u64 switches;
	__u32 tid;
	__u32 by_pid; /* the task that ran on the CPU: it is the waker, or a waking interrupt came while it ran */
	__u32 by_tid;
	__u16 kernel_frames;
	__u8 by_kernel; /* it is a thread of the kernel, or the idle task */
	__u8 unused;
	char by_comm[COMM_LEN];
	char by_process[COMM_LEN]; /* name of its first thread */
	__u64 kernel[MAX_KERNEL_FRAMES];
};
_Static_assert(sizeof(struct waker) % 8 == 0, "records follow one another");

enum {
	WAKERS_BYTES = 1 << 20, /* of the buffer: for the ends of 2,000 waits and more */
};

/* Never read: it puts the type into BTF, from which the Go type is generated. */
struct waker_enums {
	struct waker waker;
};

#endif
