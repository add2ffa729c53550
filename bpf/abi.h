/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Structs, enums and limits that the kernel side and user space share.
 *
 * Numbers are enums, not #defines, because only enums reach Go through BTF. Every struct that both sides exchange has
 * its size asserted here; the Go side is generated from the same BTF (see ebpf/kernel).
 */
#ifndef HEADWATER_ABI_H
#define HEADWATER_ABI_H

#include <linux/types.h>

/*
 * Unwind tables, page directories and mappings are in "table memory": slabs of 64-bit words, addressed by one 32-bit
 * word index. A run of words never crosses a slab, so a search needs one slab pointer and no helper call for each step.
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
	MAX_ROW_PAGE_SHIFT = 16, /* ... up to 64 KiB, by the executable's choice */

	MAX_USER_FRAMES = 1024,
	MAX_KERNEL_FRAMES = 127, /* kernel.perf_event_max_stack */
	MAX_PROCESSES = 65536,

	MAPPING_WORDS = 4, /* words of one struct mapping */
	FRAME_WORDS = 2,   /* words of one struct frame */
	GENERAL_REGISTERS = 16,
	COMM_LEN = 16,

	/* A power of two above the words of all frames, and of the frames that a language runtime keeps itself. */
	MAX_FRAME_WORDS = 8192,
	STACK_PAGE = 4096, /* a copied stack is read in pieces of this size, ... */
	STACK_PAGES = 16,  /* ... this many at most */
	MAX_STACK_BYTES = STACK_PAGE * STACK_PAGES, /* of a copied user stack */
	MAX_COPIES = 1200, /* of stacks, per second and CPU, ... */
	MAX_COPIED_WORDS = 256 * MAX_STACK_BYTES / 8, /* ... and their words */
	MAX_PARTS = 32, /* of a deep stack, that follow the copy, ... */
	MAX_PARTS_TO_UNKNOWN = 8, /* ... if its end is not known, ... */
	MAX_ALL_PARTS = 1024, /* ... and of all stacks, per second and CPU */
	PAIR_WORDS = 2, /* a part is packed: it has only the pairs of words that are not zero, ... */
	PAIR_BITS_WORDS = STACK_PAGE / 8 / PAIR_WORDS / 64, /* ... and words with a bit for each pair of a page */
	MAX_PART_WORDS = STACK_PAGES * (PAIR_BITS_WORDS + STACK_PAGE / 8),
	MAX_RECORDS_TO_OTHER_STACK = 64,
	FRAMES_WITHOUT_POINTER = 32768, /* of stack, for the frames at a thread's start */
	RING_WORDS = 65536, /* of a CPU's ring, in which samples start ... */
	SAMPLE_WORDS = 16896, /* ... and most words of a sample, which may end beyond the ring's words */
	RING_RESERVE = RING_WORDS / 4, /* words that copies of stacks leave free for samples */
	RING_WAKEUP = RING_WORDS / 8, /* words in a ring for which user space is woken */
	WAKEUPS_BYTES = 4096, /* of memory for wakeups: a page */

	MAX_INTERPRETERS = 256, /* known at a time, from 1 on */
	MAX_PROGRAMS = 256,     /* files that are known to be programs of interpreters */
	MAX_STEPS = 8,          /* to the first frame of a chain */
	MAX_NODES = 1024,       /* that are searched in a list of threads */
	MAX_CHAIN_FRAMES = 1024,
	MAX_SLOTS = 256,        /* native frames of a sample that stand for frames of a language */
	MAX_BLOCKS = 8,         /* that are read of a frame */
	BLOCK_WORDS = 16,       /* of each block at most */
	MAX_LAYOUT_WORDS = 6,   /* of a frame that go with the sample, and its cookie */
	MAX_COOKIE_WORDS = 8,
	MAX_TEXTS = 3,          /* that name a code object, ... */
	MAX_TEXT_BYTES = 192,   /* ... of at most this many bytes each */
	MAX_SAMPLE_CODES = 32,  /* code objects that a sample names, ... */
	MAX_CODES = 4096,       /* ... and a CPU names in a second */
	KNOWN_SHIFT = 8,        /* for each 256 bytes of memory, the last four named code objects are known */
	KNOWN_BITS = 13,
	KNOWN_WORDS = 1 << KNOWN_BITS,
	REFERENCE_COLOR_BITS = 16, /* at most, below the address in a reference of 64 bits */
	RED_ZONE = 128, /* bytes below sp where a leaf of x86-64 may keep data, and an epilogue may have left some */
};

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

/* The effect of a step of the path to the first frame of a chain on the address `at`, which is 0 at the start. */
enum path_op {
	PATH_NONE = 0,
	PATH_GLOBAL = 1,         /* bias + offset */
	PATH_THREAD_POINTER = 2, /* thread pointer + offset */
	PATH_LOAD = 3,           /* *(at + offset) */
	PATH_INDEX = 4,          /* at + scale * *(__u32 *)(bias + offset), which must be below limit */
	PATH_ADD = 5,            /* at + offset */
	PATH_ABSOLUTE = 6,       /* offset */
	/*
	 * *(bias + offset), the thread state that the interpreter runs, if the word at `scale` in it is the thread pointer:
	 * then the next `limit` steps are left out.
	 */
	PATH_RUNNING = 7,
};

struct path_step {
	__s64 offset;
	__u32 scale;
	__u32 limit;
	__u64 op;
};

/*
 * Memory that is read at once: the first block at the frame, each further one where a word of an earlier one points to.
 */
struct block {
	__s64 offset;
	__u64 mask; /* of the pointer */
	__u32 bytes;
	__u8 at; /* the pointer, a word of an earlier block: BLOCK_WORDS * block + its number there */
	__u8 unused[3];
};

/* A word of the blocks. In the words and the cookie of a layout, the entries beyond its counts have a mask of 0. */
struct block_word {
	__u64 mask;
	__u32 block;
	__u32 at; /* offset in the block, in bytes */
};

/* Bytes that name a code object. */
struct text {
	__s64 offset;
	__u64 mask; /* of the pointer */
	__u32 bytes;
	__u32 at; /* the pointer, as in struct block */
};

/* The data that is read of a frame, or of a slot. */
struct layout {
	struct block blocks[MAX_BLOCKS];
	struct block_word words[MAX_LAYOUT_WORDS];
	struct block_word cookie[MAX_COOKIE_WORDS];
	struct text texts[MAX_TEXTS];
	__u64 code_mask;
	__u8 block_count;
	__u8 word_count;
	__u8 cookie_count;
	__u8 text_count;
	__u8 code; /* index in words of the code object; NO_WORD if none */
	__u8 cookie_blocks; /* a bit for each block that has words of the cookie */
	__u8 unused[2];
};

enum { NO_WORD = 255 };

enum thread_owner {
	OWNER_NONE = 0, /* no list is searched */
	OWNER_THREAD_POINTER = 1,
	OWNER_TID = 2,
};

/*
 * How to find the callers that a runtime keeps in its heap, see frozen.h. Numbers are offsets in bytes, unless the
 * comment gives another unit. Field names follow the Java VM.
 */
struct frozen {
	__s64 descriptor; /* from the thread pointer: a pointer to the thread's descriptor; 0: no callers are found */
	__u64 entry_pc; /* address in the runtime's file: where the outermost frame returns to */
	__u64 bad_bits; /* address in the runtime's file: a mask of the bits that a valid reference lacks; 0: none */
	__u64 color_shift; /* address in the runtime's file: the bits of a reference below the address; 0: none */
	__u64 base; /* added to a reference of 4 bytes */
	__u64 class_mask; /* word class_at of a chunk is `class` in these bits */
	__u64 class;
	/* in the descriptor: */
	__u16 os_thread; /* a pointer, to ... */
	__u16 os_thread_own; /* ... the thread pointer */
	__u16 entry; /* a pointer to the entry of the thread's continuation on the stack */
	__u16 last_sp; /* the runtime's own note of the innermost frame */
	__u16 carrier; /* a pointer to a reference to the object of the thread */
	__u16 entry_bytes; /* size of the entry */
	/* in objects: */
	__u16 continuation; /* of a thread */
	__u16 outer; /* of a continuation */
	__u16 chunk; /* of a continuation */
	/* in a chunk: */
	__u16 class_at;
	__u16 chunk_parent;
	__u16 chunk_size; /* in words, as the next two */
	__u16 chunk_sp;
	__u16 chunk_bottom;
	__u16 chunk_stack;
	__u16 locals_below; /* the frame pointer of an interpreted frame */
	__u8 bottom_from_end; /* chunk_bottom counts from the end of the stack */
	__u8 reference_bytes; /* of a field: 4 or 8 */
	__u8 shift; /* of a reference of 4 bytes */
	__u8 unused[5];
};
_Static_assert(sizeof(struct frozen) == 96, "frozen");

/* Value of the map `interpreters`: how to find the frames that a language runtime keeps itself. */
struct interpreter {
	__u32 id; /* for user space: never used again */
	__u8 start_count; /* steps before the list is searched */
	__u8 step_count;
	__u8 owner; /* enum thread_owner */
	__u8 next; /* index in words of the pointer to the caller; NO_WORD: by stride */
	struct path_step steps[MAX_STEPS];
	__s64 node_word; /* of the list: offset in a node of the word that identifies its thread, ... */
	__s64 node_add; /* ... as the thread pointer and this number */
	__s64 node_next;
	__u64 next_mask;
	__s64 next_offset; /* or stride */
	__u64 stop_mask; /* of word `stop`: a frame with stop_value there ends the chain, and is not taken */
	__u64 stop_value;
	__u64 stop; /* NO_WORD: none */
	/*
	 * Not 0: there is no chain. The frames are native ones, in no file or in [slots_low, slots_high) of a file, and
	 * the layout is at their frame pointers.
	 */
	__u64 slots;
	__u64 slots_low;
	__u64 slots_high;
	struct layout frame;
	struct frozen frozen;
};
_Static_assert(sizeof(struct interpreter) % 8 == 0, "interpreter");

/* Key and value of the map `programs`: files whose processes all have the same interpreter. */
struct program_key {
	__u64 inode;
	__u32 dev; /* in the kernel's format */
	__u32 unused;
};

struct program {
	__u64 start_code; /* mm->start_code, less the bias */
	__u32 interpreter;
	__u32 unused;
};

/* How the reading of a chain ended; ebpf/language has the same numbers. */
enum chain_end {
	CHAIN_NONE = 0, /* none was read */
	CHAIN_WHOLE = 1, /* the last frame has no caller */
	CHAIN_NO_THREAD = 2, /* the interpreter runs no code in this thread: a zero on the path */
	CHAIN_NO_START = 3, /* the path to the first frame cannot be read */
	CHAIN_THREAD_NOT_FOUND = 4, /* in the list of threads */
	CHAIN_UNREADABLE = 5, /* a frame */
	CHAIN_TOO_LONG = 6, /* MAX_CHAIN_FRAMES, or no room in the sample */
	CHAIN_FIRST_STATE = 7, /* as CHAIN_WHOLE, but PATH_RUNNING did not lead to the thread: it may have another state */
	CHAIN_ENDS,
};

enum frame_flags {
	FRAME_RETURN_ADDRESS = 1, /* address is a return address */
	FRAME_POINTER = 2, /* reached by frame pointer, not by CFI */
	FRAME_FROZEN = 4, /* it is in the runtime's heap */
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
	SAMPLE_IN_USER = 2, /* the CPU was in user mode */
	SAMPLE_REGISTERS = 4, /* general registers follow the frames, of the frame at pc */
	SAMPLE_RBX = 8, /* general registers follow the frames, but only rbx is of the frame at pc */
	SAMPLE_PART = 32, /* no sample: more of the stack of the CPU's sample before; packed */
	SAMPLE_CONTINUED = 64, /* a part follows */
	SAMPLE_FROM_LEAF = 16, /* pc, sp, ... are the leaf's: the walk met a rule that needs more registers */
	SAMPLE_PRECAUTION = 128, /* as SAMPLE_FROM_LEAF, but only in case the walk used old mappings */
};

/* The kinds of samples; flame/kind has the same numbers. */
enum sample_kind {
	KIND_CPU = 0,
	KIND_PAGE_FAULTS = 2,
	KIND_MAJOR_FAULTS = 3,
};

/*
 * The head of a sample in a CPU's ring. After it are kernel_frames addresses, then user_frames frames, both leaf first,
 * then runtime_words words of a chain (see runtime.h), then general registers if a flag says so, then stack_bytes of
 * the user stack, from the page of sp - RED_ZONE upwards. Only pages with a bit in stack_pages are valid. In a part,
 * each valid page is packed: PAIR_BITS_WORDS words with a bit for each pair of words that is not zero, then these
 * pairs. Other pages take no room. pc, sp, fp and lr are the registers where the walk stopped, from which user space
 * continues.
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
	__u16 size; /* of the whole sample, in words */
	__u32 generation; /* of the process's mappings the walk saw */
	__u32 stack_pages;
	__u32 kind; /* enum sample_kind */
	__u32 period; /* its weight: events, or ns of the clock */
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 lr;
	/* With a copy of the stack: start of the region in which a frame can be the outermost one; 0 if not known. */
	__u64 last_frames;
	__u32 exec; /* current_exec() of the thread; 0: none */
	__u32 unused;
	__u32 interpreter; /* id of the interpreter whose chain was read; 0 if none */
	__u16 runtime_words;
	__u8 chain_end; /* enum chain_end */
	__u8 codes; /* code objects that the sample names */
	char comm[COMM_LEN]; /* of the thread */
};
_Static_assert(sizeof(struct sample) == 120, "sample");
_Static_assert(MAX_KERNEL_FRAMES + MAX_USER_FRAMES * FRAME_WORDS + GENERAL_REGISTERS < MAX_FRAME_WORDS,
	       "frames and registers end below the mask");
_Static_assert(sizeof(struct sample) / 8 + MAX_FRAME_WORDS + MAX_STACK_BYTES / 8 <= SAMPLE_WORDS,
	       "a deepest sample fits");
_Static_assert(sizeof(struct sample) / 8 + MAX_PART_WORDS <= SAMPLE_WORDS, "a part of pages without a zero fits");

/* Per-CPU counters. */
struct counters {
	__u64 ticks; /* timer events of the CPU's clock */
	__u64 idle; /* part of ticks: on the idle task */
	__u64 ignored; /* part of ticks: in a process that matches no target */
	__u64 lost; /* part of ticks: samples that found the ring full */
	__u64 events; /* of other perf events, such as page faults */
	__u64 events_lost; /* part of events: samples that found the ring full */
	__u64 copies; /* samples that carry a copy of their stack */
	__u64 copied_bytes;
	__u64 uncopied; /* samples that need a copy, but came too fast one after another */
	__u64 outcomes[OUTCOMES];
	__u64 chains[CHAIN_ENDS];
	__u64 chain_frames; /* of all chains */
	__u64 codes; /* code objects that samples name */
	__u64 unnamed_codes; /* code objects that samples should name, but there were too many */
};

enum config_flags {
	CONFIG_USER_STACKS = 1,
	CONFIG_KERNEL_STACKS = 2,
	CONFIG_COPY_STACKS = 4, /* copy the stack of a walk that missed */
	CONFIG_KEEP_EVENTS = 8, /* let the perf event write its own record next to the sample */
	CONFIG_KNOWN_ONLY = 16, /* take no sample of a process that is not in the map `processes` */
};

/* Never read: it puts the types into BTF, from which the Go constants are generated. */
struct abi_enums {
	enum limits limits;
	enum outcome outcome;
	enum cfa_kind cfa_kind;
	enum fp_rule fp_rule;
	enum ra_rule ra_rule;
	enum row_page_state row_page_state;
	enum row_page_mark row_page_mark;
	enum process_flags process_flags;
	enum frame_flags frame_flags;
	enum sample_flags sample_flags;
	enum sample_kind sample_kind;
	enum config_flags config_flags;
	enum path_op path_op;
	enum thread_owner thread_owner;
	enum chain_end chain_end;
	struct sample sample;
};

#endif
