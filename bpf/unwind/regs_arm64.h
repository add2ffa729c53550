/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Registers at the sampled point, arm64. */
#ifndef HEADWATER_REGS_ARM64_H
#define HEADWATER_REGS_ARM64_H

/* struct user_pt_regs, ABI; the kernel's pt_regs starts with it. */
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
typedef struct user_pt_regs sampled_regs;

enum {
	PSR_MODE_MASK = 0xf, /* 0 is EL0 */
	PSR_MODE_32BIT = 0x10,
};

#define REGS_IN_USER_MODE(regs) (((regs)->pstate & PSR_MODE_MASK) == 0)
#define REGS_ARE_64BIT(regs) (((regs)->pstate & PSR_MODE_32BIT) == 0)
#define STACK_POINTER(regs) ((regs)->sp)
/* Whether a thread is the kernel's own worker in a process, such as one of io_uring and vhost. */
#define NEVER_IN_USER_MODE(regs) (!(regs)->pc && !(regs)->sp)

/* Of the C calling convention. */
#define ARGUMENT_1(from) ((from)->regs[0])
#define ARGUMENT_2(from) ((from)->regs[1])
#define ARGUMENT_3(from) ((from)->regs[2])
#define ARGUMENT_4(from) ((from)->regs[3])
#define RETURNED(from) ((from)->regs[0])

#define SET_REGISTERS(u, from)                    \
	do {                                      \
		(u)->regs.pc = (from)->pc;        \
		(u)->regs.sp = (from)->sp;        \
		(u)->regs.fp = (from)->regs[29];  \
		(u)->regs.lr = (from)->regs[30];  \
		(u)->regs.x28 = (from)->regs[28]; \
		(u)->lr_valid = 1;                \
		(u)->full = 0;                    \
	} while (0)

/* Stacks of 32-bit tasks are not walked. */
#define SET_32BIT_REGISTERS(u, from)
#define COPIES_32BIT_STACKS 0

#endif
