/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the kernel knows of the current task: its registers, where its stacks end. */
#ifndef HEADWATER_TASK_H
#define HEADWATER_TASK_H

#include "thread_pointer.h"
#include "unwinder.h"

/* The few fields of the kernel's types that are read, relocated when loading. */
struct mm_struct {
	unsigned long start_stack;
	unsigned long start_code;
	struct file *exe_file;
} __attribute__((preserve_access_index));
struct uprobe_task {
	unsigned long vaddr;
	unsigned long xol_vaddr;
} __attribute__((preserve_access_index));
struct task_struct {
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	struct uprobe_task *utask;
	unsigned in_execve : 1;
	struct thread_struct thread;
} __attribute__((preserve_access_index));
struct pt_regs___kernel {
	unsigned long first;
} __attribute__((preserve_access_index));

enum {
	PF_KTHREAD = 0x00200000,
	START_CODE_FRAME = 256, /* bytes that a program's start code uses of the stack, at most */
	/* bytes that a C library has between a thread's first frame and its descriptor, mostly for variables */
	THREAD_DESCRIPTOR = 4096,
	STEPPED_BYTES = 16, /* of the copy of an instruction at a uprobe */
	KERNEL_STACK_SIZE = 16384, /* without KASAN; only used where bpf_task_pt_regs is missing */
};

/* Registers with which the current task entered the kernel. */
ALWAYS_INLINE int task_registers(struct task_struct *task, sampled_regs *regs)
{
	const void *at;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		at = (const void *)bpf_task_pt_regs((struct task_struct *)bpf_get_current_task_btf());
	} else {
		/* Before 5.15: they end at the top of the task's stack. */
		const char *stack = BPF_CORE_READ(task, stack);
		at = stack + KERNEL_STACK_SIZE - bpf_core_type_size(struct pt_regs___kernel);
	}
	return bpf_probe_read_kernel(regs, sizeof(*regs), at) ? -1 : 0;
}

/*
 * At a uprobe the CPU steps over a copy of the instruction, in a page of the process that is nobody's code. The walk
 * begins at the instruction itself.
 */
ALWAYS_INLINE void leave_copied_instruction(struct unwinder *u)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (!bpf_core_field_exists(task->utask))
		return;
	struct uprobe_task *probed = BPF_CORE_READ(task, utask);
	if (!probed)
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
	u->window_base = EMPTY_WINDOW;
}

/*
 * Begins a walk at the user's leaf frame of a task that is in the kernel, or returns the outcome that says why there is
 * none.
 */
ALWAYS_INLINE int find_entry_registers(struct unwinder *u)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	sampled_regs regs;

	begin_walk(u);
	if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
		return OUTCOME_KERNEL_THREAD;
	if (task_registers(task, &regs) || !REGS_IN_USER_MODE(&regs))
		return OUTCOME_NO_USER_REGISTERS;
	if (!REGS_ARE_64BIT(&regs)) {
		SET_32BIT_REGISTERS(u, &regs);
		return OUTCOME_TASK_32BIT;
	}
	SET_REGISTERS(u, &regs);
	leave_copied_instruction(u);
	return OUTCOME_UNSET;
}

/* Begins a walk at the user's registers, or returns the outcome that says why it does not. */
ALWAYS_INLINE int begin_user_walk(sampled_regs *regs, struct unwinder *u, struct sample *s)
{
	begin_walk(u);
	s->flags |= SAMPLE_IN_USER;
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

/* Begins a walk at the user's leaf frame, or returns the outcome that says why there is none. regs are the CPU's. */
ALWAYS_INLINE int find_user_registers(sampled_regs *regs, struct unwinder *u, struct sample *s)
{
	return REGS_IN_USER_MODE(regs) ? begin_user_walk(regs, u, s) : find_entry_registers(u);
}

/* Where the kernel began the stack of the program's first thread: above are its arguments and environment. */
ALWAYS_INLINE __u64 first_stack_word(void)
{
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), mm, start_stack);
}

/* Of the current thread. */
ALWAYS_INLINE __u64 thread_pointer(void)
{
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), THREAD_POINTER);
}

/*
 * What C libraries keep of a thread, above the frames on the stack that they have
 * given it; 0 if that is elsewhere. On x86 it begins with its own address.
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
 * Where the stack at sp ends; 0 if that is not known. The stack of a program's first
 * thread ends where the kernel began it. That of another ends where frame pointers end,
 * or else at the thread's descriptor.
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
 * Where the region begins in which a frame of the stack that addr is on can be the
 * outermost one; 0 if that is not known. The stack of a program's first thread ends
 * where the kernel began it, that of another below what the C library keeps of the thread.
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

/* The program is being replaced: the user registers are of one that is gone, or not there yet. */
ALWAYS_INLINE int in_execve(const struct sample *s)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return !(s->flags & SAMPLE_IN_USER) && bpf_core_field_exists(task->in_execve) &&
	       BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

#endif
