/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Where a task keeps the thread pointer of its user space, relocated when loading. */
#ifndef HEADWATER_THREAD_POINTER_H
#define HEADWATER_THREAD_POINTER_H

#if defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} __attribute__((preserve_access_index));
#define THREAD_POINTER thread.uw.tp_value
#else
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));
#define THREAD_POINTER thread.fsbase
#endif

#endif
