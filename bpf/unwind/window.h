/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Reads the stack, a window of it at a time. */
#ifndef HEADWATER_WINDOW_H
#define HEADWATER_WINDOW_H

#include "unwinder.h"

/*
 * Reads a word of the stack. A read of 512 bytes costs hardly more than one of 8, and also serves the frames above.
 * Near the end of the stack, where it fails, words are read one by one.
 */
ALWAYS_INLINE int read_word(struct unwinder *u, __u64 addr, __u64 *value)
{
	__u64 at = addr - u->window_base;

	if (at >= sizeof(u->window)) {
		__u64 start = addr - u->regs.sp < sizeof(u->window) ? u->regs.sp : addr - BELOW_RETURN_ADDRESS;

		if (u->window_base == NO_WINDOW || read_user(u->window, sizeof(u->window), start)) {
			u->window_base = NO_WINDOW;
			return read_user(value, sizeof(*value), addr);
		}
		u->window_base = start;
		at = addr - start;
	}
	if ((at & 7) || at >= sizeof(u->window))
		return read_user(value, sizeof(*value), addr);
	at /= 8;
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	*value = u->window[at & (WINDOW_WORDS - 1)];
	return 0;
}

#endif
