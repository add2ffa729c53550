// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * A pass over threads: an iterator that writes a record of each thread to its reader. No thread is stopped. A thread
 * that is on no CPU keeps its registers and stacks until it is on one again, which its count of switches shows.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "sample/copies.h"
#include "kernel/entry.h"
#include "sample/marks.h"
#include "abi/threads.h"
#include "unwind/regs.h"

char _license[] SEC("license") = "GPL";

/* The arguments of the iterator, relocated when loading. */
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));
enum {
	MAX_TAKES = 3, /* of a thread that runs while it is read */
	TASK_INTERRUPTIBLE = 1, /* see include/linux/sched.h */
	TASK_NEW = 0x800, /* the thread has not started: there may be no record of its fork yet */
	TASK_FROZEN = 0x8000, /* from 6.1 on */
};

/* The process or thread that is written; 0 means all. User space sets them before it reads. */
volatile __u32 only_pid = 0;
volatile __u32 only_tid = 0;

/*
 * 0, or the number of the check: threads whose mark has neither this number nor the next one are left out. The check
 * reads only the place of a thread with this number. It reads all of a thread with the next number, and sets its mark
 * to the place.
 */
volatile __u32 only_check = 0;

/*
 * 0, or the number of the pass by marks: threads of the kernel, threads of unwanted processes and threads that are
 * where their mark has them are left out. The last are credited with `interval`, and counted.
 */
volatile __u32 pass = 0;
volatile __u32 unwanted = 0; /* value in unwanted_processes of the processes that are unwanted now */
volatile __u64 interval = 0; /* ns */
volatile __u32 stayed = 0;

/* When the reader of a pass, and of the checks after it, came to its CPU, by the clock of that CPU's queue. */
volatile __u64 arrived = 0;
volatile __u32 arrived_cpu = 0;
volatile __u32 arrived_pass = 0; /* the number of that pass; 0 if none */

/* By process ID. Entries of processes that have ended are evicted in time. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_UNWANTED);
	__type(key, __u32);
	__type(value, __u32);
} unwanted_processes SEC(".maps");

/* The record that is being made. One pass reads at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread);
} record SEC(".maps");

const volatile struct thread_enums thread_enums = {};

/*
 * The fields of an iterator's task can be loaded directly, which takes a tenth of the time of a helper call. A barrier
 * keeps loads in order.
 */
#define BARRIER asm volatile("" ::: "memory")

ALWAYS_INLINE __u32 state_of(struct task_struct *task)
{
	__u32 state =
		bpf_core_field_exists(task->__state) ? task->__state : (__u32)((struct task_struct___old *)task)->state;

	/* The kernel also sets the bit of a thread that waits in vfork, whose state is not TASK_INTERRUPTIBLE. */
	if ((state & TASK_INTERRUPTIBLE) && bpf_core_field_exists(task->frozen) && BPF_CORE_READ_BITFIELD(task, frozen))
		state |= TASK_FROZEN;
	return state;
}

ALWAYS_INLINE int is_on_cpu(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) && BPF_CORE_READ_BITFIELD(task, on_cpu); /* of any size */
}

ALWAYS_INLINE int of_the_kernel(struct task_struct *task)
{
	return (task->flags & PF_KTHREAD) || !task->mm;
}

ALWAYS_INLINE __u32 cpu_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return ((struct task_struct___old *)task)->cpu;
}

/* When a task was last seen on a CPU, by the scheduler's clock. */
ALWAYS_INLINE __u64 last_run(struct task_struct *task)
{
	__u64 at = BPF_CORE_READ(task, se.exec_start), arrived = 0;

	if (bpf_core_field_exists(task->sched_info.last_arrival))
		arrived = BPF_CORE_READ(task, sched_info.last_arrival);
	return at > arrived ? at : arrived;
}

/*
 * Sets how long the thread has not run. The scheduler's clock cannot be read, but the thread that reads this file runs
 * now, and the scheduler's last time for it is younger than a tick.
 */
ALWAYS_INLINE void take_since(struct task_struct *task, struct thread *t)
{
	__u64 now = last_run((struct task_struct *)bpf_get_current_task()), ran = last_run(task);

	if (!ran)
		return;
	t->off = now > ran ? now - ran : 0;
	t->flags |= THREAD_SINCE;
}

/* The number of the system call that the thread is in, negative if it is in none. at points to its registers. */
ALWAYS_INLINE __s64 call_of(const char *at)
{
#if defined(__TARGET_ARCH_arm64)
	int number = -1;

	bpf_probe_read_kernel(&number, sizeof(number), at + bpf_core_field_offset(struct pt_regs___kernel, syscallno));
#else
	long number = -1;

	bpf_probe_read_kernel(&number, sizeof(number), at + bpf_core_field_offset(struct pt_regs___kernel, orig_ax));
#endif
	return number;
}

/* Takes the registers with which the thread entered the kernel, or says why there are none. */
ALWAYS_INLINE int take_registers(struct task_struct *task, struct thread *t)
{
	sampled_regs regs;
	const char *at;

	if (of_the_kernel(task))
		return OUTCOME_KERNEL_THREAD;
	at = ENTRY_REGISTERS(task, task);
	if (bpf_probe_read_kernel(&regs, sizeof(regs), at))
		return OUTCOME_NO_USER_REGISTERS;
	if (NEVER_IN_USER_MODE(&regs))
		return OUTCOME_KERNEL_THREAD;
	if (!REGS_IN_USER_MODE(&regs))
		return OUTCOME_NO_USER_REGISTERS;
	if (!REGS_ARE_64BIT(&regs)) { /* its system calls have other numbers */
		SET_32BIT_REGISTERS(t, &regs);
		if (COPIES_32BIT_STACKS)
			t->flags |= THREAD_REGISTERS;
		t->thread_pointer = 0;
		t->start_stack = BPF_CORE_READ(task, mm, start_stack);
		return OUTCOME_TASK_32BIT;
	}
	t->call = call_of(at);
	if (t->call >= 0)
		t->flags |= THREAD_SYSTEM_CALL;
	SET_REGISTERS(t, &regs);
	t->flags |= THREAD_REGISTERS;
	t->thread_pointer = BPF_CORE_READ(task, THREAD_POINTER);
	t->start_stack = BPF_CORE_READ(task, mm, start_stack);
	return OUTCOME_UNSET;
}

/* Takes the return addresses that return probes have replaced. Where calls push none, their places are not known. */
ALWAYS_INLINE void take_returns(struct task_struct *task, struct thread *t)
{
	if (!CALL_PUSHES_RETURN_ADDRESS || !KEEPS_RETURN_ADDRESSES || !bpf_core_field_exists(task->utask))
		return;
	struct uprobe_task *probed = task->utask;
	if (!probed)
		return;
	struct return_instance *call = BPF_CORE_READ(probed, return_instances);
	if (call)
		t->trampoline = TRAMPOLINE_OF(task);
	for (int i = 0; i < MAX_RETURN_PROBES && call; i++) {
		t->returns[i].place = BPF_CORE_READ(call, stack);
		t->returns[i].address = BPF_CORE_READ(call, orig_ret_vaddr);
		t->replaced_returns = i + 1;
		call = BPF_CORE_READ(call, next);
	}
}

/*
 * Sets whether the thread runs, and how often it has left a CPU. In this order: if it does not run, the count includes
 * the last time that it left one.
 */
ALWAYS_INLINE void take_switches(struct task_struct *task, struct thread *t)
{
	if (is_on_cpu(task))
		t->flags |= THREAD_ON_CPU;
	BARRIER;
	t->switches = task->nvcsw + task->nivcsw;
}

/*
 * When the reader took this CPU, by the clock of the CPU's queue. Other threads may have interrupted the reader since:
 * the thread that it displaced first waits all the time.
 */
ALWAYS_INLINE __u64 reader_came(__u32 cpu)
{
	struct task_struct *reader = (struct task_struct *)bpf_get_current_task();
	__u64 came = BPF_CORE_READ(reader, sched_info.last_arrival);

	if (pass && arrived_pass != pass) {
		arrived_pass = pass;
		arrived_cpu = cpu;
		arrived = came;
	}
	return (pass || only_check) && arrived_pass && arrived_cpu == cpu && arrived < came ? arrived : came;
}

/*
 * Whether a thread is queued for the CPU that the reader took, and would run without the reader. Both times are of the
 * clock of that CPU's queue.
 */
ALWAYS_INLINE int displaced(struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (!bpf_core_field_exists(task->sched_info.last_queued))
		return 0;
	__u64 came = reader_came(cpu);
	return cpu_of(task) == cpu && task->sched_info.last_queued >= came;
}

/* Whether a thread is where its mark has it; in this order, see take_switches. */
ALWAYS_INLINE int is_where(struct thread_mark *mark, struct task_struct *task)
{
	if (is_on_cpu(task) || mark->started != task->start_time)
		return 0;
	BARRIER;
	return mark->switches == task->nvcsw + task->nivcsw;
}

/* Reads and updates the mark of a thread. Returns whether the thread is left out: it is unwanted, or unchanged. */
ALWAYS_INLINE int take_mark(struct task_struct *task, struct thread *t)
{
	struct thread_mark *mark = bpf_map_lookup_elem(&marks, &t->tid);
	__u32 state;

	if (!mark) {
		__u32 *number = bpf_map_lookup_elem(&unwanted_processes, &t->pid);
		return number && *number == unwanted;
	}
	if (is_where(mark, task)) {
		state = state_of(task);
		if (mark->state == state && !task->exit_state && (state || !displaced(task))) {
			mark->stayed += interval;
			mark->pass = pass;
			stayed++;
			return 1;
		}
		mark->state = state;
		t->flags = THREAD_UNMOVED;
	}
	t->stayed = mark->stayed;
	return 0;
}

/* Whether this check looks at a thread. */
ALWAYS_INLINE int checked(struct task_struct *task, struct thread *t)
{
	struct thread_mark *mark = bpf_map_lookup_elem(&marks, &t->tid);

	if (!mark || mark->check - only_check > 1)
		return 0;
	if (mark->check == only_check)
		return 1;
	mark->started = task->start_time;
	mark->switches = t->switches;
	t->flags |= THREAD_TAKEN;
	return 1;
}

/* Takes the registers and stacks, which are lost when the thread moves. */
ALWAYS_INLINE long take_place(struct task_struct *task, struct thread *t)
{
	t->outcome = OUTCOME_UNSET;
	t->replaced_returns = 0;
	if ((only_check && !(t->flags & THREAD_TAKEN)) || (t->flags & THREAD_UNMOVED))
		return 0;
	t->outcome = take_registers(task, t);
	take_returns(task, t);
	long bytes = t->flags & THREAD_ON_CPU ? 0 : bpf_get_task_stack(task, t->kernel, sizeof(t->kernel), 0);
	return bytes < 0 || bytes > (long)sizeof(t->kernel) ? 0 : bytes;
}

/* Whether a thread that does not run has not run since its switches were taken; in this order, see take_switches. */
ALWAYS_INLINE int has_stayed(struct task_struct *task, struct thread *t)
{
	BARRIER;
	if (is_on_cpu(task))
		return 0;
	BARRIER;
	return t->switches == task->nvcsw + task->nivcsw;
}

/* Keeps the copy of a thread's stack if it is of the thread's present place. */
ALWAYS_INLINE void keep_copy(struct thread *t)
{
	__u32 watch = pass ? current_watch() : 0;
	struct copied_stack *copy = watch ? copied_stack_of(t->tid) : NULL;

	if (!copy || copy->switches != t->switches || copy->started != t->started || copy->tid != t->tid)
		return;
	copy->watch = watch;
	t->flags |= THREAD_COPIED;
}

/* Takes all of a thread except its IDs. Returns how many bytes its kernel stack has. */
ALWAYS_INLINE long take_thread(struct task_struct *task, struct thread *t)
{
	t->time = bpf_ktime_get_ns();
	t->started = task->start_time;
	t->call = -1;
	t->full = 0;
	t->lr_valid = 0;
	t->off = 0;
	t->queued = bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : QUEUED_UNKNOWN;
	if (displaced(task))
		t->flags |= THREAD_DISPLACED;
	t->state = state_of(task);
	t->exit_state = task->exit_state;
	t->cpu = cpu_of(task);
	BPF_CORE_READ_INTO(&t->comm, task, comm);
	take_since(task, t);
	return take_place(task, t);
}

SEC("iter/task")
int read_threads(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	__u32 zero = 0;

	if (!task)
		return 0;
	__u32 pid = task->tgid, tid = task->pid;
	if ((only_pid && pid != only_pid) || (only_tid && tid != only_tid))
		return 0;
	if ((pass || only_check) && (of_the_kernel(task) || state_of(task) & TASK_NEW))
		return 0;
	struct thread *t = bpf_map_lookup_elem(&record, &zero);
	if (!t)
		return 0;
	t->pid = pid;
	t->tid = tid;
	t->stayed = 0;
	t->flags = 0;
	if (pass && take_mark(task, t))
		return 0;
	long bytes = 0;
	__u8 known = t->flags;
	for (int i = 0; i < MAX_TAKES; i++) {
		t->flags = known;
		take_switches(task, t);
		if (only_check && !checked(task, t))
			return 0;
		bytes = take_thread(task, t);
		if (bytes < 0 || bytes > (long)sizeof(t->kernel))
			return 0; /* for the verifier */
		if (t->flags & (THREAD_ON_CPU | THREAD_UNMOVED))
			break;
		if (has_stayed(task, t)) {
			keep_copy(t);
			break;
		}
	}
	t->kernel_frames = (__u32)bytes / 8;
	bpf_seq_write(seq, t, __builtin_offsetof(struct thread, kernel) + bytes);
	if (t->replaced_returns) {
		__u64 returns = ((t->replaced_returns - 1) & (MAX_RETURN_PROBES - 1)) + 1; /* for the verifier */
		bpf_seq_write(seq, t->returns, returns * sizeof(t->returns[0]));
	}
	return 0;
}
