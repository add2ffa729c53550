/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the kernel side and user space both know: structs, enums and limits.
 *
 * Numbers are enums, not #defines, because only enums reach Go through BTF.
 * Every struct that crosses the border has its size asserted here; the Go side
 * is generated from the same BTF (see ebpf/kernel).
 */
#ifndef HEADWATER_ABI_H
#define HEADWATER_ABI_H

#include <linux/types.h>

/*
 * Unwind tables, page directories and mappings live in "table memory": slabs of
 * 64-bit words, addressed by one 32-bit word index. A run of words never
 * crosses a slab, so a search needs one slab pointer and no helper call a probe.
 * Word 0 is never used: index 0 means "none".
 */
enum limits {
	SLAB_SHIFT = 18,
	SLAB_WORDS = 1 << SLAB_SHIFT, /* 2 MiB a slab */
	SLAB_MASK = SLAB_WORDS - 1,
	MAX_SLABS = 1024,
	WORD_BITS = 28, /* of a word index */
	WORD_MASK = (1 << WORD_BITS) - 1,

	MIN_ROW_PAGE_SHIFT = 12, /* a page of rows covers 4 KiB of text, ... */
	MAX_ROW_PAGE_SHIFT = 16, /* ... or more, up to 64 KiB; it is the executable's choice */

	MAX_USER_FRAMES = 1024,
	MAX_KERNEL_FRAMES = 127, /* kernel.perf_event_max_stack */
	MAX_PROCESSES = 65536,

	MAPPING_WORDS = 4, /* words of one struct mapping */
	FRAME_WORDS = 2,   /* words of one struct frame */
	GENERAL_REGISTERS = 16,
	COMM_LEN = 16,

	MAX_FRAME_WORDS = 4096, /* a power of two above the words of all frames */
	STACK_PAGE = 4096, /* a copied stack is read in pieces of this size, ... */
	STACK_PAGES = 16,  /* ... this many at most */
	MAX_STACK_BYTES = STACK_PAGE * STACK_PAGES, /* of a copied user stack */
	MAX_COPIES = 256, /* of stacks, a second and CPU */
	MAX_PARTS = 32, /* of a deep stack, that follow the copy, ... */
	MAX_PARTS_TO_UNKNOWN = 8, /* ... this many where its end is not known, ... */
	MAX_ALL_PARTS = 1024, /* ... and this many of all stacks, a second and CPU */
	PAIR_WORDS = 2, /* a part is packed: it has those pairs of words only that are not zero, ... */
	PAIR_BITS_WORDS = STACK_PAGE / 8 / PAIR_WORDS / 64, /* ... and words with a bit for each pair of a page */
	MAX_PART_WORDS = STACK_PAGES * (PAIR_BITS_WORDS + STACK_PAGE / 8),
	MAX_RECORDS_TO_OTHER_STACK = 64,
	FRAMES_WITHOUT_POINTER = 32768, /* bytes that they may take at a thread's beginning */
	LOG_WORDS = 65536, /* a sample begins in the first so many words of a CPU's log, ... */
	SAMPLE_WORDS = 12800, /* ... and takes at most so many more */
	LOG_RESERVE = LOG_WORDS / 4, /* words that copies of stacks leave to samples */
	LOG_CALL = LOG_WORDS / 8, /* words in a log that user space is called for */
	CALLS_BYTES = 4096, /* of memory for calls: a page */
	RED_ZONE = 128, /* bytes below sp where a leaf of x86-64 may keep things, and epilogues have kept them */
};

struct slab {
	__u64 words[SLAB_WORDS];
};
_Static_assert((__u64)MAX_SLABS << SLAB_SHIFT == 1ULL << WORD_BITS, "every word has an index");

/* Outcome of the user part of a sample; ebpf/unwind has the same numbers. */
enum outcome {
	OUTCOME_UNSET = 0,
	OUTCOME_COMPLETE = 1,          /* CFI says that the return address is undefined */
	OUTCOME_COMPLETE_FP = 2,       /* the frame pointer chain ended in zero */
	OUTCOME_NO_MAPPING = 3,        /* pc in no mapping that we know of */
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
	OUTCOMES = 15,
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
	CFA_ABSENT = 13,     /* not known yet, as if the page were not resident: no code was here when it was made */
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
	RA_CLONE = 7,       /* x86, leaf only: as RA_DEFAULT, but none where rax is 0: in a child of the system call clone */
};

/* One unwind rule: in force from `off` to the next row of its page. One word. */
struct row {
	__u16 off; /* low bits of its first pc, an address in the file */
	__u8 cfa;  /* enum cfa_kind */
	__u8 rules;
	__s16 cfa_off;
	__s16 fp_off;
};
_Static_assert(sizeof(struct row) == 8, "a row is one word");

/* A rule that does not fit a row. Two words, behind the rows of its page. */
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

enum page_state {
	PAGE_ABSENT = 0,   /* rows not built, or evicted */
	PAGE_RESIDENT = 1, /* `count` rows at `rows`; none at all when count is 0 */
};

enum page_mark {
	PAGE_ACCESSED = 1,  /* looked up since user space last cleared the mark */
	PAGE_REQUESTED = 2, /* looked up while absent */
};

/*
 * Directory entry of one page of rows. User space writes it as one word; BPF
 * writes `mark` alone, so that the two never undo each other.
 */
struct page {
	__u32 rows;  /* word index of the first row */
	__u16 count; /* rows; wide rules follow them */
	__u8 state;
	__u8 mark;
};
_Static_assert(sizeof(struct page) == 8, "a directory entry is one word");

/* An executable mapping of a process: runs of these are sorted by start. */
struct mapping {
	__u64 start;
	__u64 end;
	__u64 bias;      /* addr - bias = vaddr in the ELF file */
	__u32 exe;       /* executable ID; 0: no file */
	__u32 directory; /* word index of the entry of page 0, modulo 2^WORD_BITS; above it the pages' shift - MIN_ROW_PAGE_SHIFT + 1; 0: no unwind tables */
};
_Static_assert(sizeof(struct mapping) == 8 * MAPPING_WORDS, "mapping words");

enum process_flags {
	PROCESS_IGNORED = 1, /* matches no target: take no sample */
	PROCESS_MAKES_CODE = 2, /* while it runs, perhaps in the place of other code: rows may be old */
};

/* Value of the map `processes`. */
struct process {
	__u32 mappings; /* word index of the first mapping */
	__u32 count;
	__u32 flags;
	__u32 generation; /* of the mappings, for user space */
	__u64 program; /* which program they belong to; BPF sets it when it is 0 */
};
_Static_assert(sizeof(struct process) == 24, "process");

enum frame_flags {
	FRAME_RETURN_ADDRESS = 1, /* address is where the call returns to */
	FRAME_POINTER = 2,        /* reached by frame pointer, not by CFI */
};

/* A user frame. With exe 0, address is the process's own, else the file's. */
struct frame {
	__u64 address;
	__u32 exe;
	__u32 flags;
};
_Static_assert(sizeof(struct frame) == 8 * FRAME_WORDS, "frame words");

enum sample_flags {
	SAMPLE_EXACT_PC = 1, /* `pc` is no return address */
	SAMPLE_IN_USER = 2,  /* the CPU was in user mode */
	SAMPLE_REGISTERS = 4, /* general registers follow the frames; they are those of pc */
	SAMPLE_RBX = 8,       /* they do, and rbx alone is */
	SAMPLE_PART = 32,     /* no sample: more of the stack of the one before, of the same CPU; packed */
	SAMPLE_CONTINUED = 64, /* a part follows */
	SAMPLE_FROM_LEAF = 16, /* pc, sp, ... are those of the leaf: the walk met a rule that needs more than it keeps */
};

/*
 * The head of a sample in a CPU's log. Behind it are kernel_frames addresses,
 * then user_frames frames, both leaf first, then general registers if a flag says so,
 * then stack_bytes of the user stack, from the page of sp - RED_ZONE upwards; those pages of it are valid
 * that stack_pages has a bit for. In a part, each of these is packed, and the others take no room:
 * PAIR_BITS_WORDS words with a bit for each pair of words that is not zero, then those pairs. pc, sp, fp
 * and lr are the registers where the walk stopped, for user space to go on from.
 */
struct sample {
	__u64 time; /* CLOCK_MONOTONIC, ns */
	__u32 pid;
	__u32 tid;
	__u32 cpu;
	__u16 kernel_frames;
	__u16 user_frames;
	__u32 stack_bytes;
	__u8 outcome;
	__u8 flags;
	__u16 size; /* of all of it, in words */
	__u32 generation; /* of the process's mappings the walk saw */
	__u32 stack_pages;
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 lr;
	char comm[COMM_LEN]; /* of the thread */
};
_Static_assert(sizeof(struct sample) == 88, "sample");
_Static_assert(MAX_KERNEL_FRAMES + MAX_USER_FRAMES * FRAME_WORDS + GENERAL_REGISTERS < MAX_FRAME_WORDS, "frames and registers end below the mask");
_Static_assert(sizeof(struct sample) / 8 + MAX_FRAME_WORDS + MAX_STACK_BYTES / 8 <= SAMPLE_WORDS, "a deepest sample fits");
_Static_assert(sizeof(struct sample) / 8 + MAX_PART_WORDS <= SAMPLE_WORDS, "a part of pages without a zero fits");

/* Per-CPU counters. */
struct counters {
	__u64 ticks;   /* timer events seen */
	__u64 idle;    /* of these, on the idle task */
	__u64 ignored; /* of these, in a process that matches no target */
	__u64 lost;    /* samples that found the log full */
	__u64 copies;  /* samples that carry a copy of their stack */
	__u64 copied_bytes;
	__u64 uncopied; /* samples that should, but came too fast one after another */
	__u64 outcomes[OUTCOMES];
};

enum config_flags {
	CONFIG_USER_STACKS = 1,
	CONFIG_KERNEL_STACKS = 2,
	CONFIG_COPY_STACKS = 4, /* copy the stack of a walk that missed */
	CONFIG_KEEP_EVENTS = 8, /* let the perf event write its own record beside the sample */
};

/* Never read: it takes the types into BTF, from where the Go constants come. */
struct abi_enums {
	enum limits limits;
	enum outcome outcome;
	enum cfa_kind cfa_kind;
	enum fp_rule fp_rule;
	enum ra_rule ra_rule;
	enum page_state page_state;
	enum page_mark page_mark;
	enum process_flags process_flags;
	enum frame_flags frame_flags;
	enum sample_flags sample_flags;
	enum config_flags config_flags;
	struct sample sample;
};

#endif
