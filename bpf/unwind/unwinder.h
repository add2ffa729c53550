/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The state of a walk: the registers of the frame that it has come to.
 *
 * A walk touches memory only through functions that the including file defines:
 *   read_user(dst, size, addr)   0, or an error when addr cannot be read
 *   table_slab(index)            the slab that holds word `index`, or NULL
 * The including file also defines functions about the stack and the thread:
 *   stack_ends_at(addr)          whether only the frame of start code can be above addr
 *   thread_pointer()             on x86
 *   called_from(addr)            0 if no call and no signal handler returns to addr
 */
#ifndef HEADWATER_UNWINDER_H
#define HEADWATER_UNWINDER_H

#include "../abi/abi.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* 2^64 divided by the golden ratio: products with it have bits that depend on all lower ones. */
#define GOLDEN 0x9e3779b97f4a7c15ULL

enum {
	REG_RAX = 0, /* DWARF numbers */
	REG_RBX = 3,
	REG_RSP = 7,
	SIGNAL_SP = 160, /* x86: the saved sp, from the ucontext */
	MAX_STACK_SWITCHES = 16,
	NO_MORE_SWITCHES = 255, /* later frames stay on their stack, or a rule says where they continue */
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
	__u64 x28; /* arm64, of the leaf: where Go keeps the goroutine */
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
	__u8 switches; /* switches to a lower stack so far; or NO_MORE_SWITCHES */
	__u32 frame_flags;
	__u64 rbx_known; /* general[REG_RBX] is this frame's, even if not `full` */
	struct wide_rule rule; /* by which the walk leaves the frame; here, as the stacks of BPF functions are small */
	__u64 goroutine[4]; /* sp, pc, lr and fp of the goroutine that is entered; here for the same reason */
	__u64 probed; /* the kernel's struct uprobe_task of the thread; 0 if none: no return address is replaced */
	__u64 returns; /* the kernel's struct return_instance of the innermost call that may be left; 0 if none */
	__u64 interpreter; /* of the process: index in `interpreters`; 0: none */
	__u64 bias; /* of the interpreter's file */
	__u64 chunk; /* in the runtime's heap, with the frame; 0: the frame is on the stack. See frozen.h: */
	__u64 next_chunk; /* to be entered */
	__u64 frozen_end; /* of the chunk's frames */
	__u64 frozen_slot; /* where the frame pointer of the frame was saved */
	__u64 frozen_entry; /* where the walk returns to the stack */
	__u64 cached_generation; /* of the mappings whose rules are remembered; 0 if none are */
	__u64 cached_stamp;
	__u64 window_base; /* address of window[0] */
	__u64 window[WINDOW_WORDS];
};

/* Values of window_base that are near no user address. */
#define EMPTY_WINDOW (1ULL << 63)
#define NO_WINDOW (EMPTY_WINDOW + (1ULL << 62)) /* read word by word */

/* Value of zero_at in find_caller: the zero means the end of the stack wherever it is. */
#define ANYWHERE EMPTY_WINDOW

#if defined(__TARGET_ARCH_arm64)
/* User pointers carry a PAC above the virtual address. */
enum { CALL_PUSHES_RETURN_ADDRESS = 0 };
#define STRIP_PAC(addr) ((addr) & 0x0000ffffffffffffULL)
#else
enum { CALL_PUSHES_RETURN_ADDRESS = 1 };
#define STRIP_PAC(addr) (addr)
#endif

/* Prepares for the frame of a caller: its pc is a return address, and the values of most registers are lost. */
ALWAYS_INLINE void forget_registers(struct unwinder *u)
{
	u->exact = 0;
	u->full = 0;
	u->lr_valid = 0;
	u->rbx_known = 0;
}

#endif
