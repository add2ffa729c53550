/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The current task: its registers, and the ends of its stacks. */
#ifndef HEADWATER_TASK_H
#define HEADWATER_TASK_H

#include "../unwind/code.h"
#include "entry.h"
#include "uprobes.h"

enum {
	START_CODE_FRAME = 256, /* bytes that a program's start code uses of the stack, at most */
	/* bytes that a C library has between a thread's first frame and its descriptor, mostly for variables */
	THREAD_DESCRIPTOR = 4096,
	STEPPED_BYTES = 16, /* of the copy of an instruction at a uprobe */
};

/* How the current task entered the kernel. */
struct entry {
	__u64 returns; /* to the code that called the handler of an exception, or of a system call */
	sampled_regs regs;
};

ALWAYS_INLINE int find_entry(struct task_struct *task, struct entry *entry)
{
	const char *at = ENTRY_REGISTERS(task, bpf_get_current_task_btf());

	return bpf_probe_read_kernel(entry, sizeof(*entry), at - __builtin_offsetof(struct entry, regs)) ? -1 : 0;
}

#if defined(__TARGET_ARCH_arm64)
/* A breakpoint leaves the pc where it is. */
ALWAYS_INLINE void leave_breakpoint(struct unwinder *u, const struct entry *entry)
{
	(void)u, (void)entry;
}
#else
extern void asm_exc_int3 __ksym __weak; /* from 5.8 on; calls the handler of a breakpoint */
enum { ENTRY_CODE_BYTES = 64 };

/* Whether a one-byte push may just have put that word on the stack. */
ALWAYS_INLINE int is_pushed(const struct unwinder *u, __u64 word)
{
	int same = 0;

	for (int i = 0; i < 8; i++)
		same |= i != REG_RSP && u->regs.general[i] == word;
	return same;
}

/*
 * The breakpoint of a uprobe is one byte. When the kernel starts to handle it, the pc is after that byte, inside an
 * instruction that was not executed, so the walk starts at the instruction. Padding has the same byte, so the byte
 * counts only while the kernel is in the handler of breakpoints. There the kernel also emulates the push of a register,
 * and the pc is right then.
 */
ALWAYS_INLINE void leave_breakpoint(struct unwinder *u, const struct entry *entry)
{
	__u64 handler = (__u64)&asm_exc_int3, top;
	__u8 code;

	if (!handler || entry->returns - handler >= ENTRY_CODE_BYTES)
		return;
	if (read_user(&code, sizeof(code), u->regs.pc - 1) || code != 0xcc)
		return;
	if (read_user(&top, sizeof(top), u->regs.sp) || (is_pushed(u, top) && !follows_call(top)))
		return;
	u->regs.pc--;
}
#endif

/* Notes whether the thread has hit uprobes, and which of its calls have a return probe. */
ALWAYS_INLINE void note_probes(struct unwinder *u)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	u->returns = 0;
	u->probed = 0;
	if (!bpf_core_field_exists(task->utask))
		return;
	struct uprobe_task *probed = BPF_CORE_READ(task, utask);
	u->probed = (__u64)probed;
	if (probed && KEEPS_RETURN_ADDRESSES)
		u->returns = (__u64)BPF_CORE_READ(probed, return_instances);
}

/*
 * At a uprobe the CPU steps over a copy of the instruction, in a page of the process that has no other code. The walk
 * starts at the instruction itself.
 */
ALWAYS_INLINE void leave_copied_instruction(struct unwinder *u)
{
	struct uprobe_task *probed = (struct uprobe_task *)u->probed;

	if (!probed || !bpf_core_field_exists(struct uprobe_task, xol_vaddr))
		return;
	__u64 copy = BPF_CORE_READ(probed, xol_vaddr);
	if (copy && u->regs.pc - copy < STEPPED_BYTES)
		u->regs.pc += BPF_CORE_READ(probed, vaddr) - copy;
}

ALWAYS_INLINE void begin_walk(struct unwinder *u)
{
	u->exact = 1;
	u->frame_flags = 0;
	u->switches = 0;
	u->rbx_known = 0;
	u->probed = 0;
	u->returns = 0;
	u->window_base = EMPTY_WINDOW;
}

/*
 * Starts a walk at the user's leaf frame of a task that is in the kernel, or returns the outcome that says why there is
 * none. It is a separate function, so that the registers are not on the stack of a program that calls other functions:
 * kernels such as 6.1 round up the stack of each function to 32 bytes.
 */
static __attribute__((noinline)) int find_entry_registers(struct unwinder *u)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct entry entry;

	begin_walk(u);
	if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
		return OUTCOME_KERNEL_THREAD;
	if (find_entry(task, &entry))
		return OUTCOME_NO_USER_REGISTERS;
	if (NEVER_IN_USER_MODE(&entry.regs))
		return OUTCOME_KERNEL_THREAD;
	if (!REGS_IN_USER_MODE(&entry.regs))
		return OUTCOME_NO_USER_REGISTERS;
	note_probes(u);
	if (!REGS_ARE_64BIT(&entry.regs)) {
		SET_32BIT_REGISTERS(u, &entry.regs);
		return OUTCOME_TASK_32BIT;
	}
	SET_REGISTERS(u, &entry.regs);
	leave_breakpoint(u, &entry);
	leave_copied_instruction(u);
	return OUTCOME_UNSET;
}

/* Starts a walk at the user's registers, or returns the outcome that says why it does not. */
ALWAYS_INLINE int begin_user_walk(sampled_regs *regs, struct unwinder *u, struct sample *s)
{
	begin_walk(u);
	s->flags |= SAMPLE_IN_USER;
	note_probes(u);
	if (!REGS_ARE_64BIT(regs)) {
		SET_32BIT_REGISTERS(u, regs);
		return OUTCOME_TASK_32BIT;
	}
	SET_REGISTERS(u, regs);
	/* Keeps clang from joining this with the other copy: one is context memory, one is stack. */
	asm volatile("" ::"r"(u) : "memory");
	leave_copied_instruction(u);
	return OUTCOME_UNSET;
}

/* Starts a walk at the user's leaf frame, or returns the outcome that says why there is none. regs are the CPU's. */
ALWAYS_INLINE int find_user_registers(sampled_regs *regs, struct unwinder *u, struct sample *s)
{
	return REGS_IN_USER_MODE(regs) ? begin_user_walk(regs, u, s) : find_entry_registers(u);
}

/* Where the kernel started the stack of the program's first thread: above are its arguments and environment. */
ALWAYS_INLINE __u64 first_stack_word(void)
{
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), mm, start_stack);
}

/*
 * The number of the program that the current task runs: the kernel counts the programs that a process has executed,
 * from its first ancestor on. 0 while a program is being replaced: the new program has no stack then.
 */
ALWAYS_INLINE __u32 current_exec(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return first_stack_word() ? (__u32)BPF_CORE_READ(task, self_exec_id) : 0;
}

/* The thread pointer of the current thread. */
ALWAYS_INLINE __u64 thread_pointer(void)
{
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), THREAD_POINTER);
}

/*
 * The descriptor that C libraries keep of a thread, above the frames on the stack that they gave it; 0 if it is
 * elsewhere. On x86 it starts with its own address.
 */
ALWAYS_INLINE __u64 thread_descriptor(void)
{
	__u64 at = thread_pointer();

#if !defined(__TARGET_ARCH_arm64)
	__u64 self;

	if (read_user(&self, sizeof(self), at) || self != at)
		return 0;
#endif
	return at;
}

/*
 * Where the stack at sp ends; 0 if not known. The stack of a program's first thread ends where the kernel started it.
 * The stack of another thread ends where frame pointers end, or else at the thread's descriptor.
 */
ALWAYS_INLINE __u64 end_of_stack(__u64 sp, __u64 by_frame_pointers)
{
	const __u64 reach = (MAX_PARTS + 1ULL) * MAX_STACK_BYTES;
	__u64 end = first_stack_word();

	if (sp < end && end - sp < reach)
		return end;
	if (by_frame_pointers)
		return by_frame_pointers;
	end = thread_descriptor();
	return sp < end && end - sp < reach ? end : 0;
}

/*
 * Start of the region in which a frame of the stack that addr is on can be the outermost one; 0 if not known. The stack
 * of a program's first thread ends where the kernel started it, the stack of another thread below the C library's
 * descriptor of the thread.
 */
ALWAYS_INLINE __u64 last_frames(__u64 addr)
{
	const __u64 reach = (MAX_PARTS + 1ULL) * MAX_STACK_BYTES;
	__u64 end = first_stack_word() + 16; /* start code may have taken the number of arguments off the stack */

	if (end - addr < reach)
		return end - START_CODE_FRAME;
	end = thread_descriptor();
	return end - addr < reach ? end - THREAD_DESCRIPTOR : 0;
}

/* Whether a frame at addr can be the outermost one. */
ALWAYS_INLINE int stack_ends_at(__u64 addr)
{
	__u64 from = last_frames(addr);

	return from && addr >= from;
}

/* Whether the program is being replaced: the user registers are of a program that is gone, or not there yet. */
ALWAYS_INLINE int in_execve(const struct sample *s)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return !(s->flags & SAMPLE_IN_USER) && bpf_core_field_exists(task->in_execve) &&
	       BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

#endif
