/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Unwind rows, their pages, mappings and processes in table memory, and the outcomes of walks. */
#ifndef HEADWATER_ABI_ROWS_H
#define HEADWATER_ABI_ROWS_H

#include "limits.h"

struct slab {
	__u64 words[SLAB_WORDS];
};
_Static_assert((__u64)MAX_SLABS << SLAB_SHIFT == 1ULL << WORD_BITS, "every word has an index");

/* Outcome of the user part of a sample; ebpf/unwind has the same numbers. */
enum outcome {
	OUTCOME_UNSET = 0,
	OUTCOME_COMPLETE = 1,          /* CFI says that the return address is undefined */
	OUTCOME_COMPLETE_FP = 2,       /* frame pointer or return address is zero where the stack ends */
	OUTCOME_NO_MAPPING = 3,        /* pc in no known mapping */
	OUTCOME_PROCESS_UNKNOWN = 4,   /* no mapping of the process known yet */
	OUTCOME_PAGE_MISSING = 5,      /* rows of this page of text not resident */
	OUTCOME_NO_ROW = 6,            /* no rule for pc, and no usable frame pointer */
	OUTCOME_UNSUPPORTED_RULE = 7,  /* a rule that rows cannot express */
	OUTCOME_UNREADABLE_STACK = 8,  /* a read of user memory failed */
	OUTCOME_NO_PROGRESS = 9,       /* the CFA did not move towards the stack's base */
	OUTCOME_DEPTH_LIMIT = 10,      /* MAX_USER_FRAMES reached */
	OUTCOME_TASK_32BIT = 11,       /* a 32-bit task */
	OUTCOME_KERNEL_THREAD = 12,    /* no user part exists */
	OUTCOME_NO_USER_REGISTERS = 13, /* a worker, or a task between two programs */
	OUTCOME_NOT_COLLECTED = 14,    /* user stacks are switched off */
	OUTCOME_NO_CALL = 15,          /* no call precedes the return address that a rule by analysis has found */
	OUTCOMES, /* how many there are */
};

/* Kinds of CFA rule; `off` is cfa_off of the row. */
enum cfa_kind {
	CFA_NONE = 0,        /* a gap between FDEs: frame pointer fallback */
	CFA_SP = 1,          /* CFA = sp + off */
	CFA_FP = 2,          /* CFA = fp + off */
	CFA_FP_DEREF = 3,    /* CFA = *(fp + off) + 8 * reg */
	CFA_PLT = 4,         /* CFA = sp + 8 + ((pc & 15) >= off ? 8 : 0) */
	CFA_SIGNAL = 5,      /* registers in the ucontext; the saved sp is at sp + off */
	CFA_WIDE = 6,        /* wide rule number (u16)off of this page */
	CFA_UNSUPPORTED = 7, /* off is the reason, see ebpf/unwind */
	CFA_SP_DEREF = 8,    /* CFA = *(sp + off) + 8 * reg */
	CFA_REG = 9,         /* CFA = reg + off; wide rules only */
	CFA_SP_INDEXED = 10, /* CFA = *(sp + 8 * reg + off) + 8 * reg2; wide rules only */
	CFA_FRAME = 11,      /* CFA = fp + off; fp, ra = *fp, *(fp + 8); perhaps on another stack */
	CFA_SP_FAR = 12,     /* CFA = sp + 8 * off: a frame beyond 2 GiB; wide rules only */
	CFA_ABSENT = 13,     /* not known yet, as if the page were not resident: it had no code when it was built */
	/*
	 * The registers that Go's runtime keeps of the goroutine that the thread runs; wide rules only. With g the
	 * descriptor at which x86's word at thread pointer + cfa_off, or x28, points:
	 * m = *(g + 8 * reg), curg = *(m + fp_off), sp and pc = *(curg + 8 * reg2...),
	 * lr and fp = *(curg + ra_off - 8...).
	 * pc is used with RA_REG; else the goroutine was left in a call, and the return address is at sp.
	 */
	CFA_GOROUTINE = 14,
	CFA_FROZEN = 15, /* no frame: the callers are in the runtime's heap, see frozen.h; else as CFA_UNSUPPORTED */
	CFA_SP_DEREF_TWICE = 16, /* CFA = *(*(sp + off) + 8 * reg2) + 8 * reg; wide rules only */
};

/* Low nibble of `rules`: how the caller's frame pointer is found. */
enum fp_rule {
	FP_SAME = 0,      /* unchanged */
	FP_AT_CFA = 1,    /* *(CFA + fp_off) */
	FP_UNDEFINED = 2, /* lost: zero */
	FP_AT_FP = 3,     /* *(fp + fp_off), if that is in the frame; else unchanged */
	FP_REG = 4,       /* in register reg2; wide rules only */
};

/* High nibble of `rules`: how the return address is found. */
enum ra_rule {
	RA_DEFAULT = 0,   /* x86: *(CFA - 8); arm64: *(CFA + fp_off + 8) */
	RA_UNDEFINED = 1, /* the outermost frame */
	RA_LR = 2,        /* arm64: in x30 */
	RA_AT_CFA = 3,    /* *(CFA + ra_off); wide rules only */
	RA_REG = 4,       /* in register ra_off; wide rules only */
	/* x86: as RA_DEFAULT. In the dynamic loader, whose lazy binding has CFA = rbx + off, rows follow rbx: */
	RA_KEEP_RBX = 5,    /* unchanged */
	RA_RESTORE_RBX = 6, /* *(CFA + ra_off); wide rules only */
	RA_AT_FP = 8,       /* *(fp + ra_off); wide rules only */
	RA_AT_SP = 9,       /* *(sp + ra_off); wide rules only */
	/* x86, leaf only: as RA_DEFAULT, but the outermost frame if rax is 0: in a child of the system call clone */
	RA_CLONE = 7,
	/* as RA_DEFAULT; later frames do not continue at the registers that Go's runtime keeps of a goroutine */
	RA_DETACHED = 10,
	/* x86: as RA_DEFAULT, if a call may return there: for rules by analysis of the code only */
	RA_CALLED = 11,
};

/* One unwind rule, for the pcs from `off` to the next row of its page. One word. */
struct row {
	__u16 off; /* low bits of its first pc, an address in the file */
	__u8 cfa;  /* enum cfa_kind */
	__u8 rules;
	__s16 cfa_off;
	__s16 fp_off;
};
_Static_assert(sizeof(struct row) == 8, "a row is one word");

/* A rule that does not fit a row. Two words, after the rows of its page. */
struct wide_rule {
	__u8 cfa;
	__u8 reg; /* DWARF number, for CFA_REG; words to add, for CFA_*_DEREF; else 0 */
	__u8 rules;
	__u8 reg2; /* DWARF number, for FP_REG */
	__s32 cfa_off;
	__s32 fp_off;
	__s32 ra_off; /* offset, or DWARF number for RA_REG */
};
_Static_assert(sizeof(struct wide_rule) == 16, "a wide rule is two words");

enum row_page_state {
	ROW_PAGE_ABSENT = 0,   /* rows not built, or evicted */
	ROW_PAGE_RESIDENT = 1, /* `count` rows at `rows`; no rows if count is 0 */
};

enum row_page_mark {
	ROW_PAGE_ACCESSED = 1, /* looked up since user space last cleared the mark */
};

/*
 * Directory entry of one page of rows. User space writes it as one word; BPF writes only `mark`, so that the two never
 * undo each other.
 */
struct row_page {
	__u32 rows;  /* word index of the first row */
	__u16 count; /* rows; wide rules follow them */
	__u8 state;
	__u8 mark;
};
_Static_assert(sizeof(struct row_page) == 8, "a directory entry is one word");

/* An executable mapping of a process. The mappings of a process are sorted by start. */
struct mapping {
	__u64 start;
	__u64 end;
	__u64 bias;      /* addr - bias = vaddr in the ELF file */
	__u32 exe;       /* executable ID; 0 if no file */
	/*
	 * Word index of the entry of page 0, modulo 2^WORD_BITS; in the bits above, the pages' shift -
	 * MIN_ROW_PAGE_SHIFT + 1. 0 if there are no unwind tables.
	 */
	__u32 directory;
};
_Static_assert(sizeof(struct mapping) == 8 * MAPPING_WORDS, "mapping words");

enum process_flags {
	PROCESS_IGNORED = 1, /* matches no target: take no sample */
	PROCESS_MAKES_CODE = 2, /* at run time, perhaps in the place of other code: rows may be old */
	PROCESS_RESTLESS = 4, /* puts one file over another: mappings may be old, so every sample carries its stack */
};

/* Value of the map `processes`. */
struct process {
	__u32 mappings; /* word index of the first mapping */
	__u32 count;
	__u16 flags;
	__u16 interpreter; /* index in the map `interpreters`; 0: none */
	__u32 generation; /* of the mappings, for user space */
	__u32 exec; /* number of the mappings' program, as the kernel counts programs; BPF sets it if it is 0 */
	__u32 pid; /* of this process: the kernel reuses the memory of a replaced value at once */
	__u64 bias; /* of the interpreter's file */
};
_Static_assert(sizeof(struct process) == 32, "process");

#endif
