/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Registers at the sampled point, x86-64. */
#ifndef HEADWATER_REGS_X86_H
#define HEADWATER_REGS_X86_H

/* The kernel's struct pt_regs, whose layout is ABI (arch/x86/include/uapi/asm/ptrace.h). */
struct pt_regs {
	__u64 r15, r14, r13, r12, bp, bx;
	__u64 r11, r10, r9, r8, ax, cx, dx, si, di;
	__u64 orig_ax, ip, cs, flags, sp, ss;
};
typedef struct pt_regs sampled_regs;

enum {
	USER_MODE_RING = 3,
	CS_64BIT = 0x33, /* __USER_CS */
};

#define REGS_IN_USER_MODE(regs) (((regs)->cs & USER_MODE_RING) == USER_MODE_RING)
#define REGS_ARE_64BIT(regs) ((regs)->cs == CS_64BIT)
#define STACK_POINTER(regs) ((regs)->sp)
/* Whether a thread is the kernel's own worker in a process, such as one of io_uring and vhost. */
#define NEVER_IN_USER_MODE(regs) (!(regs)->ip && !(regs)->sp)

/* Of the C calling convention. */
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_3(regs) ((regs)->dx)
#define ARGUMENT_4(regs) ((regs)->cx)
#define RETURNED(regs) ((regs)->ax)

/* A macro, since the sampled registers are context memory and other registers are not. */
#define SET_REGISTERS(u, from)                       \
	do {                                         \
		(u)->regs.pc = (from)->ip;           \
		(u)->regs.sp = (from)->sp;           \
		(u)->regs.fp = (from)->bp;           \
		(u)->regs.lr = 0;                    \
		(u)->regs.general[0] = (from)->ax;   \
		(u)->regs.general[1] = (from)->dx;   \
		(u)->regs.general[2] = (from)->cx;   \
		(u)->regs.general[3] = (from)->bx;   \
		(u)->regs.general[4] = (from)->si;   \
		(u)->regs.general[5] = (from)->di;   \
		(u)->regs.general[6] = (from)->bp;   \
		(u)->regs.general[7] = (from)->sp;   \
		(u)->regs.general[8] = (from)->r8;   \
		(u)->regs.general[9] = (from)->r9;   \
		(u)->regs.general[10] = (from)->r10; \
		(u)->regs.general[11] = (from)->r11; \
		(u)->regs.general[12] = (from)->r12; \
		(u)->regs.general[13] = (from)->r13; \
		(u)->regs.general[14] = (from)->r14; \
		(u)->regs.general[15] = (from)->r15; \
		(u)->lr_valid = 0;                   \
		(u)->full = 1;                       \
	} while (0)

/*
 * The registers of a 32-bit task, whose stack user space walks. ebp is only among the general registers: its frame
 * records have words of 4 bytes, which the walk here does not follow.
 */
#define SET_32BIT_REGISTERS(u, from)    \
	do {                            \
		SET_REGISTERS(u, from); \
		(u)->regs.fp = 0;       \
	} while (0)
#define COPIES_32BIT_STACKS 1

#endif
