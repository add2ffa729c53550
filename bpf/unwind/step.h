/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * One step of a walk: applies a rule and leaves the caller's registers.
 * ebpf/unwind's step.go executes the same rules in Go.
 */
#ifndef HEADWATER_STEP_H
#define HEADWATER_STEP_H

#include "code.h"
#include "unwinder.h"
#include "window.h"

/*
 * No rule for pc: take the caller from the frame pointer. The record at fp must look like one: aligned, not below sp,
 * and pointing up the stack. After one record has led here, the chain may continue on another stack, as Go's does from
 * a thread's own stack to the goroutine's, a few times.
 */
ALWAYS_INLINE int step_frame_pointer(struct unwinder *u, __u64 *zero_at)
{
	__u64 record[2]; /* caller's frame pointer, return address */
	__u64 fp = u->regs.fp;
	int chained = u->frame_flags & FRAME_POINTER;

	/*
	 * Zero, or a record of zeros, marks the outermost frame. But in the first frame fp may be anything, and also in
	 * other frames, if a caller has another use for the register.
	 */
	if (!fp && chained) {
		*zero_at = u->regs.sp;
		return OUTCOME_COMPLETE_FP;
	}
	if (!fp || (fp & 7))
		return OUTCOME_NO_ROW;
	if (fp < u->regs.sp && (!chained || u->switches++ >= MAX_STACK_SWITCHES))
		return OUTCOME_NO_ROW;
	if (read_word(u, fp, &record[0]) || read_word(u, fp + 8, &record[1]))
		return OUTCOME_NO_ROW;
	record[1] = STRIP_PAC(record[1]);
	if (!record[1]) {
		*zero_at = fp;
		return record[0] || !chained ? OUTCOME_NO_ROW : OUTCOME_COMPLETE_FP;
	}
	/* The caller may have another use for the register, but its return address must look like one. */
	if (!called_from(record[1]))
		return OUTCOME_NO_ROW;
	u->regs.pc = record[1];
	u->regs.fp = record[0];
	u->regs.sp = fp + 16;
	forget_registers(u);
	u->frame_flags = FRAME_POINTER;
	return OUTCOME_UNSET;
}

#if defined(__TARGET_ARCH_arm64)
/* struct rt_sigframe: siginfo, then the ucontext; its sigcontext holds regs[31], sp, pc. */
enum { SIGNAL_X28_TO_SP = 24 };

ALWAYS_INLINE int step_signal(struct unwinder *u, __s32 off)
{
	__u64 saved[5]; /* x28, x29, x30, sp, pc */

	if (read_user(saved, sizeof(saved), u->regs.sp + off - SIGNAL_X28_TO_SP))
		return OUTCOME_UNREADABLE_STACK;
	u->regs.x28 = saved[0];
	u->regs.fp = saved[1];
	u->regs.lr = saved[2];
	u->regs.sp = saved[3];
	u->regs.pc = saved[4];
	u->lr_valid = 1;
	u->exact = 1;
	u->full = 0;
	u->rbx_known = 0;
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}
#else
/* gregs of the ucontext in memory order. */
/* clang-format off */
enum { GREG_R8, GREG_R9, GREG_R10, GREG_R11, GREG_R12, GREG_R13, GREG_R14, GREG_R15, GREG_RDI, GREG_RSI, GREG_RBP,
       GREG_RBX, GREG_RDX, GREG_RAX, GREG_RCX, GREG_RSP, GREG_RIP, GREGS };
/* clang-format on */

/* The interrupted frame of a signal is like a leaf: exact pc, every register known. */
ALWAYS_INLINE int step_signal(struct unwinder *u, __s32 off)
{
	__u64 g[GREGS];

	if (read_user(g, sizeof(g), u->regs.sp + off - GREG_RSP * 8))
		return OUTCOME_UNREADABLE_STACK;
	u->regs.general[0] = g[GREG_RAX];
	u->regs.general[1] = g[GREG_RDX];
	u->regs.general[2] = g[GREG_RCX];
	u->regs.general[3] = g[GREG_RBX];
	u->regs.general[4] = g[GREG_RSI];
	u->regs.general[5] = g[GREG_RDI];
	u->regs.general[6] = g[GREG_RBP];
	u->regs.general[7] = g[GREG_RSP];
	for (int i = 0; i < 8; i++)
		u->regs.general[8 + i] = g[GREG_R8 + i];
	u->regs.fp = g[GREG_RBP];
	u->regs.sp = g[GREG_RSP];
	u->regs.pc = g[GREG_RIP];
	u->exact = 1;
	u->full = 1;
	u->rbx_known = 0;
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}
#endif

ALWAYS_INLINE int find_cfa(struct unwinder *u, const struct wide_rule *rule, __u64 *cfa)
{
	__s64 off = rule->cfa_off;

	switch (rule->cfa) {
	case CFA_SP:
		*cfa = u->regs.sp + off;
		return OUTCOME_UNSET;
	case CFA_SP_FAR:
		*cfa = u->regs.sp + 8 * off;
		return OUTCOME_UNSET;
	case CFA_FP:
		*cfa = u->regs.fp + off;
		return OUTCOME_UNSET;
	case CFA_FP_DEREF:
	case CFA_SP_DEREF:
		if (read_word(u, (rule->cfa == CFA_FP_DEREF ? u->regs.fp : u->regs.sp) + off, cfa))
			return OUTCOME_UNREADABLE_STACK;
		*cfa += 8 * (__u64)rule->reg;
		return OUTCOME_UNSET;
	case CFA_SP_DEREF_TWICE:
		if (read_word(u, u->regs.sp + off, cfa) || read_word(u, *cfa + 8 * (__u64)rule->reg2, cfa))
			return OUTCOME_UNREADABLE_STACK;
		*cfa += 8 * (__u64)rule->reg;
		return OUTCOME_UNSET;
	case CFA_PLT:
		*cfa = u->regs.sp + 8 + ((u->regs.pc & 15) >= (__u64)off ? 8 : 0);
		return OUTCOME_UNSET;
	case CFA_ABSENT:
		return OUTCOME_PAGE_MISSING;
	case CFA_REG:
		if (!u->full && !(rule->reg == REG_RBX && u->rbx_known))
			return OUTCOME_UNSUPPORTED_RULE;
		*cfa = u->regs.general[rule->reg & (GENERAL_REGISTERS - 1)] + off;
		return OUTCOME_UNSET;
	case CFA_SP_INDEXED:
		if (!u->full)
			return OUTCOME_UNSUPPORTED_RULE;
		if (read_word(u, u->regs.sp + 8 * u->regs.general[rule->reg & (GENERAL_REGISTERS - 1)] + off, cfa))
			return OUTCOME_UNREADABLE_STACK;
		*cfa += 8 * (__u64)rule->reg2;
		return OUTCOME_UNSET;
	}
	return OUTCOME_UNSUPPORTED_RULE;
}

/* Finds the return address, which may be 0. */
ALWAYS_INLINE int find_return_address(struct unwinder *u, const struct wide_rule *rule, __u64 cfa, __u64 *ra)
{
	__u64 at;

	switch (rule->rules >> 4) {
	case RA_KEEP_RBX:
	case RA_RESTORE_RBX:
		if (!CALL_PUSHES_RETURN_ADDRESS)
			return OUTCOME_UNSUPPORTED_RULE;
		at = cfa - 8;
		break;
	case RA_CLONE:
		if (!CALL_PUSHES_RETURN_ADDRESS || !u->full)
			return OUTCOME_UNSUPPORTED_RULE;
		if (!u->regs.general[REG_RAX])
			return OUTCOME_COMPLETE;
		at = cfa - 8;
		break;
	case RA_DEFAULT:
	case RA_DETACHED:
	case RA_CALLED:
		at = CALL_PUSHES_RETURN_ADDRESS ? cfa - 8 : cfa + rule->fp_off + 8;
		break;
	case RA_AT_CFA:
		at = cfa + rule->ra_off;
		break;
	case RA_AT_FP:
		at = u->regs.fp + rule->ra_off;
		break;
	case RA_AT_SP:
		at = u->regs.sp + rule->ra_off;
		break;
	case RA_LR:
		if (!u->lr_valid)
			return OUTCOME_UNSUPPORTED_RULE;
		*ra = STRIP_PAC(u->regs.lr);
		return OUTCOME_UNSET;
	case RA_REG:
		if (!u->full)
			return OUTCOME_UNSUPPORTED_RULE;
		*ra = u->regs.general[rule->ra_off & (GENERAL_REGISTERS - 1)];
		return OUTCOME_UNSET;
	default:
		return OUTCOME_UNSUPPORTED_RULE;
	}
	if (read_word(u, at, ra))
		return OUTCOME_UNREADABLE_STACK;
	*ra = STRIP_PAC(*ra);
	return OUTCOME_UNSET;
}

ALWAYS_INLINE int find_frame_pointer(struct unwinder *u, const struct wide_rule *rule, __u64 cfa, __u64 *fp)
{
	__u64 at;

	switch (rule->rules & 15) {
	case FP_SAME:
		*fp = u->regs.fp;
		return OUTCOME_UNSET;
	case FP_UNDEFINED:
		*fp = 0;
		return OUTCOME_UNSET;
	case FP_AT_CFA:
		at = cfa + rule->fp_off;
		break;
	case FP_AT_FP:
		/*
		 * GCC has this rule in functions that realign their stack, up to their last instruction. But when the
		 * frame is gone, fp is already the caller's.
		 */
		at = u->regs.fp + rule->fp_off;
		if (at < u->regs.sp || at >= cfa) {
			*fp = u->regs.fp;
			return OUTCOME_UNSET;
		}
		break;
	case FP_REG:
		if (!u->full)
			return OUTCOME_UNSUPPORTED_RULE;
		*fp = u->regs.general[rule->reg2 & (GENERAL_REGISTERS - 1)];
		return OUTCOME_UNSET;
	default:
		return OUTCOME_UNSUPPORTED_RULE;
	}
	return read_word(u, at, fp) ? OUTCOME_UNREADABLE_STACK : OUTCOME_UNSET;
}

/*
 * Takes the caller from the record to which the frame pointer is known to point. The caller may be on another
 * stack, below this one: the rule is for functions that switch stacks. A frame pointer of zero is the end.
 */
ALWAYS_INLINE int step_record(struct unwinder *u, const struct wide_rule *rule)
{
	__u64 fp = u->regs.fp, next, ra;

	if (!fp)
		return OUTCOME_COMPLETE_FP;
	if (read_word(u, fp, &next) || read_word(u, fp + 8, &ra))
		return OUTCOME_UNREADABLE_STACK;
	ra = STRIP_PAC(ra);
	if (!ra)
		return OUTCOME_COMPLETE_FP;
	u->regs.pc = ra;
	u->regs.fp = next;
	u->regs.sp = fp + rule->cfa_off;
	if (rule->rules >> 4 == RA_DETACHED)
		u->switches = NO_MORE_SWITCHES;
	forget_registers(u);
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}

/*
 * Finds the descriptor of the goroutine on whose stack the thread is, or of the runtime's own goroutine for the thread.
 */
ALWAYS_INLINE int find_descriptor(const struct unwinder *u, const struct wide_rule *rule, __u64 *g)
{
#if defined(__TARGET_ARCH_arm64)
	(void)rule;
	*g = u->regs.x28;
	return *g ? OUTCOME_UNSET : OUTCOME_UNREADABLE_STACK;
#else
	__u64 at = thread_pointer();

	(void)u;
	if (!at)
		return OUTCOME_UNREADABLE_STACK;
	return read_user(g, sizeof(*g), at + rule->cfa_off) ? OUTCOME_UNREADABLE_STACK : OUTCOME_UNSET;
#endif
}

/* Replaces the registers in a function without locals, as step_goroutine keeps them, by its caller's registers. */
ALWAYS_INLINE int enter_caller(__u64 *saved, __u64 *kept)
{
#if defined(__TARGET_ARCH_arm64)
	__u64 record[2]; /* x29, x30 */

	if (read_user(record, sizeof(record), saved[0] - 8))
		return -1;
	kept[1] = record[0];
	saved[1] = record[1];
	saved[0] += 16;
	return 0;
#else
	(void)kept;
	if (read_user(&saved[1], sizeof(saved[1]), saved[0]))
		return -1;
	saved[0] += 8;
	return 0;
#endif
}

/*
 * Continues in the goroutine that the thread runs, if functions of the runtime work for it on the thread's stack. The
 * runtime keeps the registers of the last time that the goroutine was left, so a walk goes there only once. The
 * registers are valid if goroutine and thread refer to each other. A thread that has come through the scheduler, or no
 * longer runs a goroutine, has no frames of a goroutine.
 */
ALWAYS_INLINE int step_goroutine(struct unwinder *u, const struct wide_rule *rule)
{
	__u64 to_m = 8 * (__u64)rule->reg, g, m, current, owner;
	__u64 *saved = u->goroutine; /* sp, pc */
	__u64 *kept = u->goroutine + 2; /* lr, fp */
	int pc_is_kept = rule->rules >> 4 == RA_REG;

	if (u->switches == NO_MORE_SWITCHES)
		return pc_is_kept ? OUTCOME_COMPLETE : OUTCOME_UNSUPPORTED_RULE;
	int r = find_descriptor(u, rule, &g);
	if (r)
		return r;
	if (read_user(&m, sizeof(m), g + to_m) || read_user(&current, sizeof(current), m + rule->fp_off))
		return OUTCOME_UNREADABLE_STACK;
	/* The first word of m is the goroutine of the thread's own stack. */
	g = current;
	if (!g && read_user(&g, sizeof(g), m))
		return OUTCOME_UNREADABLE_STACK;
	if (read_user(&owner, sizeof(owner), g + to_m))
		return OUTCOME_UNREADABLE_STACK;
	if (owner != m)
		return OUTCOME_UNSUPPORTED_RULE;
	if (!current)
		return pc_is_kept ? OUTCOME_COMPLETE : OUTCOME_UNSUPPORTED_RULE;
	if (read_user(saved, 2 * sizeof(*saved), current + 8 * (__u64)rule->reg2) ||
	    read_user(kept, 2 * sizeof(*kept), current + rule->ra_off - 8))
		return OUTCOME_UNREADABLE_STACK;
	if (!saved[0] || (saved[0] & 7))
		return OUTCOME_UNSUPPORTED_RULE;
	if (!pc_is_kept && enter_caller(saved, kept))
		return OUTCOME_UNREADABLE_STACK;
	if (!saved[1])
		return OUTCOME_UNSUPPORTED_RULE;
	u->regs.sp = saved[0];
	u->regs.pc = STRIP_PAC(saved[1]);
	u->regs.lr = kept[0];
	u->regs.fp = kept[1];
	forget_registers(u);
	u->lr_valid = pc_is_kept && !CALL_PUSHES_RETURN_ADDRESS;
	u->switches = NO_MORE_SWITCHES;
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}

/*
 * Whether a rule may lead to another stack at lower addresses: a function that runs another function on a separate
 * stack, as Rust's stacker, gcc's __morestack and OCaml's runtime do, finds its frame by a register or by a word that it
 * has saved. This is allowed a few times only, so that the walk ends.
 */
ALWAYS_INLINE int may_leave_stack(const struct unwinder *u, const struct wide_rule *rule)
{
	return (rule->cfa == CFA_FP || rule->cfa == CFA_FP_DEREF || rule->cfa == CFA_SP_DEREF ||
		rule->cfa == CFA_SP_DEREF_TWICE || rule->cfa == CFA_REG) &&
	       u->switches < MAX_STACK_SWITCHES;
}

/*
 * Replaces the registers by the caller's. OUTCOME_UNSET: there is a caller. With OUTCOME_COMPLETE_FP, zero_at is where
 * a zero was found: the walk is complete only if that is at the end of its stack.
 */
ALWAYS_INLINE int find_caller(struct unwinder *u, const struct wide_rule *rule, __u64 *zero_at)
{
	__u64 cfa = 0, ra = 0, fp = 0;
	int r;

	if (rule->cfa == CFA_NONE)
		return step_frame_pointer(u, zero_at);
	if (rule->cfa == CFA_FRAME && rule->rules >> 4 != RA_UNDEFINED)
		return step_record(u, rule);
	if (rule->cfa == CFA_GOROUTINE)
		return step_goroutine(u, rule);
	if (rule->cfa == CFA_SIGNAL)
		return step_signal(u, rule->cfa_off);
	if (rule->cfa != CFA_UNSUPPORTED && rule->rules >> 4 == RA_UNDEFINED)
		return OUTCOME_COMPLETE;

	r = find_cfa(u, rule, &cfa);
	if (r)
		return r;
	/*
	 * Only a frame whose return address is in a register may have no size: a leaf of arm64, or x86's vfork. Such a
	 * rule works once, so the walk still ends.
	 */
	__u8 ra_rule = rule->rules >> 4;
	int leaves = cfa < u->regs.sp;
	if (leaves ? !may_leave_stack(u, rule) : cfa == u->regs.sp && ra_rule != RA_LR && ra_rule != RA_REG)
		return OUTCOME_NO_PROGRESS;
	r = find_return_address(u, rule, cfa, &ra);
	if (r)
		return r;
	r = find_frame_pointer(u, rule, cfa, &fp);
	if (r)
		return r;
	if (leaves && !called_from(ra))
		return OUTCOME_NO_PROGRESS; /* the register has another use */
	if (!ra) {
		/* The end of a stack that a program allocated for itself is not known; fp = 0 also marks it. */
		*zero_at = fp ? cfa : ANYWHERE;
		return OUTCOME_COMPLETE_FP;
	}
	if (ra_rule == RA_CALLED && !called_from(ra))
		return OUTCOME_NO_CALL;
	__u64 rbx_known = ra_rule == RA_KEEP_RBX && (u->full || u->rbx_known);
	if (ra_rule == RA_RESTORE_RBX) {
		if (read_word(u, cfa + rule->ra_off, &u->regs.general[REG_RBX]))
			return OUTCOME_UNREADABLE_STACK;
		rbx_known = 1;
	}
	u->regs.pc = ra;
	u->regs.sp = cfa;
	u->regs.fp = fp;
	forget_registers(u);
	u->rbx_known = rbx_known;
	u->switches += leaves;
	if (ra_rule == RA_DETACHED)
		u->switches = NO_MORE_SWITCHES;
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}

/* Goes to the caller. A zero is the end of a stack only where the stack can end. */
ALWAYS_INLINE int apply_rule(struct unwinder *u, const struct wide_rule *rule)
{
	__u64 zero_at = ANYWHERE;
	int r = find_caller(u, rule, &zero_at);

	if (r == OUTCOME_COMPLETE_FP && zero_at != ANYWHERE && !stack_ends_at(zero_at))
		return OUTCOME_NO_ROW;
	return r;
}

#endif
