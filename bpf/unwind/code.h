/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Machine code at an address: a call before it, or a signal trampoline. */
#ifndef HEADWATER_CODE_H
#define HEADWATER_CODE_H

#include "unwinder.h"

#if defined(__TARGET_ARCH_arm64)
/* Whether the instruction before addr is a call: bl or blr. */
ALWAYS_INLINE int follows_call(__u64 addr)
{
	__u32 code;

	if ((addr & 3) || read_user(&code, sizeof(code), addr - 4))
		return 0;
	return (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000;
}

/* Whether addr is a signal trampoline: mov x8, #139; svc #0. */
ALWAYS_INLINE int is_trampoline(__u64 addr)
{
	__u64 code;

	return !read_user(&code, sizeof(code), addr) && code == 0xd4000001d2801168;
}

/* The kernel makes a frame record of the interrupted code, so frame pointers lead there. */
ALWAYS_INLINE __u64 interrupted_stack(__u64 record)
{
	(void)record;
	return 0;
}
#else
/* Whether the instruction before addr may be a call: e8 and four bytes, or ff /2. */
ALWAYS_INLINE int follows_call(__u64 addr)
{
	__u8 code[8]; /* code[8 - n] is n bytes before addr */
	__u64 word, in_page = addr & 4095;

	if (read_user(&word, sizeof(word), addr - 8)) {
		/* The page before may not be there: zeros stand for its bytes. */
		if (!in_page || in_page >= 8 || read_user(&word, sizeof(word), addr - in_page))
			return 0;
		word <<= 64 - 8 * in_page;
	}
	for (int i = 0; i < 8; i++)
		code[i] = (__u8)(word >> (8 * i));
	/* clang-format off */
	return code[3] == 0xe8 ||
	       /* register */
	       (code[6] == 0xff && (code[7] & 0xf8) == 0xd0) ||
	       /* (register) */
	       (code[6] == 0xff && (code[7] & 0xf8) == 0x10 && (code[7] & 7) != 4 && (code[7] & 7) != 5) ||
	       /* 8 bits of offset */
	       (code[5] == 0xff && (code[6] & 0xf8) == 0x50 && (code[6] & 7) != 4) ||
	       /* base and index */
	       (code[5] == 0xff && code[6] == 0x14) ||
	       (code[4] == 0xff && code[5] == 0x54) ||
	       /* 32 bits of offset */
	       (code[2] == 0xff && ((code[3] & 0xf8) == 0x90 || code[3] == 0x15) && code[3] != 0x94) ||
	       (code[1] == 0xff && code[2] == 0x94) ||
	       (code[1] == 0xff && code[2] == 0x14 && (code[3] & 7) == 5);
	/* clang-format on */
}

/* Whether addr is a signal trampoline: mov $15, %rax or %eax; syscall. */
ALWAYS_INLINE int is_trampoline(__u64 addr)
{
	__u64 code;

	if (read_user(&code, sizeof(code), addr))
		return 0;
	return code == 0x0f0000000fc0c748 || (code & 0x00ffffffffffffff) == 0x00050f0000000fb8;
}

/*
 * The stack pointer of the code that a signal interrupted, from the frame record of a handler that returns to a
 * trampoline; 0 if not known.
 */
ALWAYS_INLINE __u64 interrupted_stack(__u64 record)
{
	__u64 sp;

	/* The ucontext is after the return address; SIGNAL_SP is the offset that rows have. */
	return read_user(&sp, sizeof(sp), record + 16 + SIGNAL_SP) ? 0 : sp;
}
#endif

#endif
