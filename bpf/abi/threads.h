/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The record that a pass over the threads of this host writes of each, for user space. */
#ifndef HEADWATER_THREADS_H
#define HEADWATER_THREADS_H

#include "../kernel/uprobes.h"

enum thread_flags {
	THREAD_ON_CPU = 1, /* it runs, so that its registers are old */
	THREAD_REGISTERS = 2, /* regs are the registers with which it entered the kernel */
	THREAD_SINCE = 4, /* `off` is known */
	THREAD_SYSTEM_CALL = 8, /* it is in system call `call` */
	THREAD_UNMOVED = 16, /* it is where its mark has it, in another state: registers and stack are not read */
	THREAD_DISPLACED = 32, /* it is queued for the CPU that the reader runs on, since the reader came */
	THREAD_TAKEN = 64, /* a check reads its registers and stack */
	THREAD_COPIED = 128, /* its stack was copied when it left its CPU, and it is where it was then */
};

/*
 * Where user space knows a thread to be, so that a pass need not read all of it again. To make a mark, user space sets
 * the fields that BPF does not set.
 */
struct thread_mark {
	__u64 started; /* as in struct thread: a mark is of one thread, not of all that get its ID */
	__u64 switches; /* at the place where its stack was read */
	__u64 stayed; /* the sum of `interval` of the passes that saw it there and wrote no record; set by BPF */
	__u32 state; /* as in its last record, or STATE_UNKNOWN; then set by BPF */
	__u32 pass; /* the number of the last pass that saw it there and wrote no record; set by BPF */
	__u32 check; /* the number of the check that looks at the thread's place; the one before reads all of it */
	__u32 woken; /* a task has ended this wait since, and is recorded; set by BPF */
};

#define QUEUED_UNKNOWN (~0ULL)

enum {
	STATE_UNKNOWN = 0xffffffff, /* of a new mark: the next pass writes the thread */
	MAX_MARKS = (1 << 14) + 64,
	MAX_UNWANTED = 1 << 14,
};

/*
 * The stack of a thread, copied when it left its CPU. User space gives a thread its room, and sets tid; BPF sets all
 * other fields.
 */
struct copied_stack {
	__u64 started; /* as in struct thread */
	__u64 switches; /* as in struct thread, after it has left; 0 if there is no copy, or it is being made */
	__u64 from; /* address of the first page */
	__u32 tid;
	__u32 pages; /* a bit for each page that could be read */
	__u32 watch; /* the number of the watch in which a pass has met the thread there: this copy is kept */
	__u32 unused;
};

enum {
	COPIED_PAGES = 4, /* of STACK_PAGE: the whole stack of nearly all programs */
	COPIED_BYTES = COPIED_PAGES * STACK_PAGE,
	MAX_COPIED = 1 << 9, /* threads whose stacks are copied */
};

/* A return address on a thread's stack that a return probe has replaced. */
struct replaced_return {
	__u64 place;
	__u64 address; /* the true return address */
};

/* After the head are kernel_frames addresses, leaf first, then replaced_returns of `returns`, innermost first. */
struct thread {
	__u64 time; /* CLOCK_MONOTONIC, ns */
	__u64 started; /* task_struct.start_time: with tid, the identity of a thread */
	__u64 switches; /* times that it has left a CPU, read before all fields below */
	__u64 stayed; /* as in the mark of its ID */
	__u64 off; /* ns since it was last seen on a CPU, to within a tick */
	__u64 queued; /* ns in all in a queue for a CPU, until it last got one; QUEUED_UNKNOWN if not counted */
	__s64 call;
	__u64 thread_pointer;
	__u64 start_stack; /* where the kernel started the stack of the program's first thread */
	struct registers regs;
	__u32 pid;
	__u32 tid;
	__u32 cpu;
	__u32 state; /* TASK_INTERRUPTIBLE and so on */
	__u32 exit_state;
	__u16 kernel_frames;
	__u8 outcome; /* enum outcome: why there are no registers */
	__u8 flags; /* enum thread_flags */
	__u8 full; /* regs has general registers */
	__u8 lr_valid;
	__u8 replaced_returns;
	__u8 unused[5];
	__u64 trampoline; /* the address that return probes have put in their places */
	char comm[COMM_LEN];
	__u64 kernel[MAX_KERNEL_FRAMES];
	struct replaced_return returns[MAX_RETURN_PROBES];
};
_Static_assert(sizeof(struct thread) % 8 == 0, "records follow one another");

/* Never read: it puts the types into BTF, from which the Go constants are generated. */
struct thread_enums {
	enum thread_flags thread_flags;
	struct thread thread;
	struct thread_mark mark;
	struct copied_stack copied_stack;
};

#endif
