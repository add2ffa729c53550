/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * One step of a walk: find the row for pc, apply its rule, leave the caller's
 * registers. ebpf/unwind's step.go executes the same rules in Go.
 *
 * Touches memory only through two functions that the including file defines:
 *   read_user(dst, size, addr)   0, or an error when addr cannot be read
 *   table_slab(index)            the slab that holds word `index`, or NULL
 */
#ifndef HEADWATER_UNWIND_H
#define HEADWATER_UNWIND_H

#include "abi.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
	REG_RAX = 0, /* DWARF numbers */
	REG_RBX = 3,
	SIGNAL_SP = 160, /* x86: the saved sp, from the ucontext */
	MAX_STACK_SWITCHES = 4,
	WINDOW_WORDS = 64, /* of the stack, read at once: several frames' worth */
	BELOW_RETURN_ADDRESS = 64, /* bytes where callee-saved registers may be */
	SEARCH_STEPS = 17, /* enough for 65,535 rows or mappings a slab can hold */
};

/* Registers of the frame being walked. Arm64's general registers stay empty. */
struct registers {
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 lr;
	__u64 general[GENERAL_REGISTERS]; /* by DWARF number; valid if `full` */
};

struct unwinder {
	struct registers regs;
	struct mapping mapping; /* of the last pc: neighbours share it */
	__u32 mappings;
	__u32 mapping_count;
	__u8 exact; /* pc is no return address: look up pc itself */
	__u8 full;  /* general registers are this frame's */
	__u8 lr_valid;
	__u8 switches; /* from stack to stack, by frame pointer */
	__u32 frame_flags;
	__u64 rbx_known; /* general[REG_RBX] is this frame's, even if not `full` */
	__u64 window_base; /* address of window[0] */
	__u64 window[WINDOW_WORDS];
};

/* Values of window_base that are near no user address. */
#define EMPTY_WINDOW (1ULL << 63)
#define NO_WINDOW (EMPTY_WINDOW + (1ULL << 62)) /* read word by word */

#if defined(__TARGET_ARCH_arm64)
/* User pointers carry a PAC above the virtual address. */
enum { CALL_PUSHES_RETURN_ADDRESS = 0 };
#define STRIP_PAC(addr) ((addr) & 0x0000ffffffffffffULL)
#else
enum { CALL_PUSHES_RETURN_ADDRESS = 1 };
#define STRIP_PAC(addr) (addr)
#endif

/*
 * The last of `count` entries of `stride` words from word `start` whose key is
 * at most `key`, as a word index; needs count > 0. Entry 0 is returned when all
 * are above. The key of an entry is its first word, cut to `mask`. Branchless:
 * one verifier path, nothing to mispredict.
 */
ALWAYS_INLINE __u32 search(const __u64 *words, __u32 start, __u32 count, __u32 stride, __u64 mask, __u64 key)
{
	__u32 base = 0;

	for (int i = 0; i < SEARCH_STEPS; i++) {
		if (count <= 1)
			break;
		__u32 half = count >> 1;
		__u64 at = words[(start + (base + half) * stride) & SLAB_MASK] & mask;
		/* keys are below 2^63, so the sign tells at <= key */
		__u64 below = (__u64)((__s64)(at - key - 1) >> 63);

		base += half & (__u32)below;
		count -= half;
	}
	return start + base * stride;
}

/*
 * Reads a word of the stack. A read of 512 bytes costs hardly more than one of
 * 8, and serves the frames above as well. Near the end of the stack, where it
 * fails, words are read one by one.
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

/* Finds the mapping of addr and keeps it in u->mapping. */
ALWAYS_INLINE int find_mapping(struct unwinder *u, __u64 addr)
{
	if (addr >= u->mapping.start && addr < u->mapping.end)
		return OUTCOME_UNSET;
	if (!u->mapping_count)
		return OUTCOME_PROCESS_UNKNOWN;

	const struct slab *slab = table_slab(u->mappings);
	if (!slab)
		return OUTCOME_NO_MAPPING;
	__u32 at = search(slab->words, u->mappings, u->mapping_count, MAPPING_WORDS, ~0ULL, addr);

	__u64 start = slab->words[at & SLAB_MASK];
	__u64 end = slab->words[(at + 1) & SLAB_MASK];
	if (addr < start || addr >= end)
		return OUTCOME_NO_MAPPING;
	__u64 ids = slab->words[(at + 3) & SLAB_MASK];

	u->mapping.start = start;
	u->mapping.end = end;
	u->mapping.bias = slab->words[(at + 2) & SLAB_MASK];
	u->mapping.exe = (__u32)ids;
	u->mapping.directory = (__u32)(ids >> 32);
	return OUTCOME_UNSET;
}

/* Finds the rule in force at vaddr of the current mapping, widened. */
ALWAYS_INLINE int find_rule(struct unwinder *u, __u64 vaddr, struct wide_rule *rule)
{
	__u32 directory = u->mapping.directory;
	__u32 entry = (directory + (__u32)(vaddr >> ((directory >> WORD_BITS) + MIN_ROW_PAGE_SHIFT - 1))) & WORD_MASK;
	struct slab *slab = table_slab(entry);

	if (!slab)
		return OUTCOME_PAGE_MISSING;
	struct page *page = (struct page *)&slab->words[entry & SLAB_MASK];
	struct page p = *(volatile struct page *)page;

	if (p.state != PAGE_RESIDENT) {
		page->mark = PAGE_REQUESTED;
		return OUTCOME_PAGE_MISSING;
	}
	if (p.mark != PAGE_ACCESSED)
		page->mark = PAGE_ACCESSED;
	if (!p.count) {
		rule->cfa = CFA_NONE;
		return OUTCOME_UNSET;
	}

	const struct slab *rows = table_slab(p.rows);
	if (!rows)
		return OUTCOME_PAGE_MISSING;
	__u32 at = search(rows->words, p.rows, p.count, 1, 0xffff, vaddr & 0xffff);
	__u64 row = rows->words[at & SLAB_MASK];

	rule->cfa = (__u8)(row >> 16);
	rule->rules = (__u8)(row >> 24);
	rule->cfa_off = (__s16)(row >> 32);
	rule->fp_off = (__s16)(row >> 48);
	if (rule->cfa == CFA_WIDE) {
		__u32 wide = p.rows + p.count + 2 * (__u32)(__u16)rule->cfa_off;
		__u64 lo = rows->words[wide & SLAB_MASK];
		__u64 hi = rows->words[(wide + 1) & SLAB_MASK];

		rule->cfa = (__u8)lo;
		rule->reg = (__u8)(lo >> 8);
		rule->rules = (__u8)(lo >> 16);
		rule->reg2 = (__u8)(lo >> 24);
		rule->cfa_off = (__s32)(lo >> 32);
		rule->fp_off = (__s32)hi;
		rule->ra_off = (__s32)(hi >> 32);
	}
	return OUTCOME_UNSET;
}

/* The frame is a caller's now: its pc is a return address, and what registers held is lost. */
ALWAYS_INLINE void forget_registers(struct unwinder *u)
{
	u->exact = 0;
	u->full = 0;
	u->lr_valid = 0;
	u->rbx_known = 0;
}

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

/* The kernel makes a frame record of what a signal interrupts, so that the chain tells. */
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

	if (read_user(code, sizeof(code), addr - 8))
		return 0;
	return code[3] == 0xe8 ||
	       (code[6] == 0xff && (code[7] & 0xf8) == 0xd0) || /* register */
	       (code[6] == 0xff && (code[7] & 0xf8) == 0x10 && (code[7] & 7) != 4 && (code[7] & 7) != 5) || /* (register) */
	       (code[5] == 0xff && (code[6] & 0xf8) == 0x50 && (code[6] & 7) != 4) || /* 8 bits of offset */
	       (code[5] == 0xff && code[6] == 0x14) || /* base and index */
	       (code[4] == 0xff && code[5] == 0x54) ||
	       (code[2] == 0xff && ((code[3] & 0xf8) == 0x90 || code[3] == 0x15) && code[3] != 0x94) || /* 32 bits of offset */
	       (code[1] == 0xff && code[2] == 0x94) || (code[1] == 0xff && code[2] == 0x14 && (code[3] & 7) == 5);
}

/* Whether addr is a signal trampoline: mov $15, %rax or %eax; syscall. */
ALWAYS_INLINE int is_trampoline(__u64 addr)
{
	__u64 code;

	if (read_user(&code, sizeof(code), addr))
		return 0;
	return code == 0x0f0000000fc0c748 || (code & 0x00ffffffffffffff) == 0x00050f0000000fb8;
}

/* Where the stack is that a signal interrupted, from the record of a handler that returns to a trampoline; 0: not known. */
ALWAYS_INLINE __u64 interrupted_stack(__u64 record)
{
	__u64 sp;

	/* The ucontext is behind the return address; SIGNAL_SP is that of rows. */
	return read_user(&sp, sizeof(sp), record + 16 + SIGNAL_SP) ? 0 : sp;
}
#endif

/*
 * No rule for pc: take the caller from the frame pointer. The record at fp must
 * look like one: aligned, not below sp, and pointing up the stack. Once one
 * record has led here, the chain is trusted to go on to another stack, as Go's
 * does from a thread's own stack to that of the goroutine, a few times.
 */
ALWAYS_INLINE int step_frame_pointer(struct unwinder *u)
{
	__u64 record[2]; /* caller's frame pointer, return address */
	__u64 fp = u->regs.fp;
	int chained = u->frame_flags & FRAME_POINTER;

	/* Zero, or a record of zeros, marks the outermost frame; but in the first one fp may be anything. */
	if (!fp && chained)
		return OUTCOME_COMPLETE_FP;
	if (!fp || (fp & 7))
		return OUTCOME_NO_ROW;
	if (fp < u->regs.sp && (!chained || u->switches++ >= MAX_STACK_SWITCHES))
		return OUTCOME_NO_ROW;
	if (read_word(u, fp, &record[0]) || read_word(u, fp + 8, &record[1]))
		return OUTCOME_NO_ROW;
	record[1] = STRIP_PAC(record[1]);
	if (!record[1])
		return record[0] || !chained ? OUTCOME_NO_ROW : OUTCOME_COMPLETE_FP;
	/* The caller may have another use for the register; its return address must look like one then. */
	if (record[0] && record[0] <= fp && !chained && !follows_call(record[1]))
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
enum { SIGNAL_REGS_TO_SP = 31 * 8, SIGNAL_LR_TO_SP = 8, SIGNAL_FP_TO_SP = 16 };

ALWAYS_INLINE int step_signal(struct unwinder *u, __s32 off)
{
	__u64 saved[4]; /* x29, x30, sp, pc */

	if (read_user(saved, sizeof(saved), u->regs.sp + off - SIGNAL_FP_TO_SP))
		return OUTCOME_UNREADABLE_STACK;
	u->regs.fp = saved[0];
	u->regs.lr = saved[1];
	u->regs.sp = saved[2];
	u->regs.pc = saved[3];
	u->lr_valid = 1;
	u->exact = 1;
	u->full = 0;
	u->rbx_known = 0;
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}
#else
/* gregs of the ucontext in memory order. */
enum { GREG_R8, GREG_R9, GREG_R10, GREG_R11, GREG_R12, GREG_R13, GREG_R14, GREG_R15, GREG_RDI, GREG_RSI, GREG_RBP,
       GREG_RBX, GREG_RDX, GREG_RAX, GREG_RCX, GREG_RSP, GREG_RIP, GREGS };

/* What a signal interrupted is like a leaf: exact pc, every register known. */
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

/* Finds the return address; 0 is an answer too. */
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
		 * GCC says this of functions that realign their stack, up to their last
		 * instruction. But when the frame is gone, fp is the caller's already.
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
 * Takes the caller from the record that the frame pointer is known to point to.
 * The caller's stack may be another one, below this one: the rule is for
 * functions that go from stack to stack. A frame pointer of zero is the end.
 */
ALWAYS_INLINE int step_record(struct unwinder *u, __s32 off)
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
	u->regs.sp = fp + off;
	forget_registers(u);
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}

/* Replaces the registers by the caller's. OUTCOME_UNSET: there is a caller. */
ALWAYS_INLINE int apply_rule(struct unwinder *u, const struct wide_rule *rule)
{
	__u64 cfa = 0, ra = 0, fp = 0;
	int r;

	if (rule->cfa == CFA_NONE)
		return step_frame_pointer(u);
	if (rule->cfa == CFA_FRAME && rule->rules >> 4 != RA_UNDEFINED)
		return step_record(u, rule->cfa_off);
	if (rule->cfa == CFA_SIGNAL)
		return step_signal(u, rule->cfa_off);
	if (rule->cfa != CFA_UNSUPPORTED && rule->rules >> 4 == RA_UNDEFINED)
		return OUTCOME_COMPLETE;

	r = find_cfa(u, rule, &cfa);
	if (r)
		return r;
	/*
	 * Only a frame whose return address is in a register may be of no size: a leaf
	 * of arm64, or x86's vfork. Such a rule works once, so the walk still ends.
	 */
	__u8 ra_rule = rule->rules >> 4;
	if (cfa < u->regs.sp || (cfa == u->regs.sp && ra_rule != RA_LR && ra_rule != RA_REG))
		return OUTCOME_NO_PROGRESS;
	r = find_return_address(u, rule, cfa, &ra);
	if (r)
		return r;
	r = find_frame_pointer(u, rule, cfa, &fp);
	if (r)
		return r;
	if (!ra)
		return OUTCOME_COMPLETE_FP;
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
	u->frame_flags = 0;
	return OUTCOME_UNSET;
}

/* The frame at the present registers, as it is shown. Sets u->mapping. */
ALWAYS_INLINE int locate(struct unwinder *u, struct frame *f)
{
	int r = find_mapping(u, u->regs.pc - !u->exact);

	f->flags = u->frame_flags | (u->exact ? 0 : FRAME_RETURN_ADDRESS);
	if (r) {
		f->address = u->regs.pc;
		f->exe = 0;
		return r;
	}
	f->exe = u->mapping.exe;
	f->address = u->regs.pc - (f->exe ? u->mapping.bias : 0);
	return OUTCOME_UNSET;
}

/* Goes from a located frame to its caller. */
ALWAYS_INLINE int step(struct unwinder *u)
{
	struct wide_rule rule = { .cfa = CFA_NONE };

	if (u->mapping.directory) {
		int r = find_rule(u, u->regs.pc - !u->exact - u->mapping.bias, &rule);
		if (r)
			return r;
	}
	return apply_rule(u, &rule);
}

#endif
