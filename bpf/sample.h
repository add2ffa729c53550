/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Begins and emits a sample: the one exit, which counts the outcome. */
#ifndef HEADWATER_SAMPLE_H
#define HEADWATER_SAMPLE_H

#include "abi.h"
#include "maps.h"

/* The few fields of the kernel's types that are read, relocated when loading. */
struct mm_struct {
	unsigned long start_stack;
} __attribute__((preserve_access_index));
struct task_struct {
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	unsigned in_execve : 1;
} __attribute__((preserve_access_index));
struct pt_regs___kernel {
	unsigned long first;
} __attribute__((preserve_access_index));

enum {
	PF_KTHREAD = 0x00200000,
	MAX_FRAME_WORDS = 4096, /* a power of two above what all frames take */
	KERNEL_STACK_SIZE = 16384, /* without KASAN; only used where bpf_task_pt_regs is missing */
};

static inline struct counters *counters(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

ALWAYS_INLINE void begin_sample(struct sample *s, __u64 id)
{
	s->time = bpf_ktime_get_ns();
	s->pid = (__u32)(id >> 32);
	s->tid = (__u32)id;
	s->cpu = bpf_get_smp_processor_id();
	s->kernel_frames = 0;
	s->user_frames = 0;
	s->stack_bytes = 0;
	s->stack_pages = 0;
	s->outcome = OUTCOME_UNSET;
	s->flags = 0;
	s->generation = 0;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
}

ALWAYS_INLINE void take_kernel_stack(struct bpf_perf_event_data *ctx, struct sample *s)
{
	long n = bpf_get_stack(ctx, s->words, MAX_KERNEL_FRAMES * 8, 0);

	if (n > 0 && n <= MAX_KERNEL_FRAMES * 8)
		s->kernel_frames = (__u16)(n / 8);
}

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

/* Leaves the registers of the user's leaf frame in u, or the outcome that says why there are none. */
ALWAYS_INLINE int find_user_registers(struct bpf_perf_event_data *ctx, struct unwinder *u, struct sample *s)
{
	struct task_struct *task;
	sampled_regs regs;

	u->exact = 1;
	u->frame_flags = 0;
	u->switches = 0;
	u->rbx_known = 0;
	u->window_base = EMPTY_WINDOW;
	if (REGS_IN_USER_MODE(&ctx->regs)) {
		s->flags |= SAMPLE_IN_USER;
		if (!REGS_ARE_64BIT(&ctx->regs))
			return OUTCOME_TASK_32BIT;
		SET_REGISTERS(u, &ctx->regs);
		/* Keeps clang from joining this with the copy below: one is context memory, one is stack. */
		asm volatile("" ::"r"(u) : "memory");
		return OUTCOME_UNSET;
	}
	task = (struct task_struct *)bpf_get_current_task();
	if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
		return OUTCOME_KERNEL_THREAD;
	if (task_registers(task, &regs) || !REGS_IN_USER_MODE(&regs))
		return OUTCOME_NO_USER_REGISTERS;
	if (!REGS_ARE_64BIT(&regs))
		return OUTCOME_TASK_32BIT;
	SET_REGISTERS(u, &regs);
	return OUTCOME_UNSET;
}

/* Words of the body before the copy of the stack. */
ALWAYS_INLINE __u32 words_before_stack(const struct sample *s)
{
	return s->kernel_frames + s->user_frames * FRAME_WORDS + (s->flags & (SAMPLE_REGISTERS | SAMPLE_RBX) ? GENERAL_REGISTERS : 0);
}

/* Copies the general registers behind the frames, if any is known. */
ALWAYS_INLINE void copy_registers(const struct unwinder *u, struct sample *s)
{
	__u32 at = words_before_stack(s);

	if (!u->full && !u->rbx_known)
		return;
	s->flags |= u->full ? SAMPLE_REGISTERS : SAMPLE_RBX;
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	at &= MAX_FRAME_WORDS - 1;
	for (int i = 0; i < GENERAL_REGISTERS; i++)
		s->words[at + i] = u->regs.general[i];
}

/*
 * Copies the user stack behind the frames, page by page: what a frame has not
 * touched may not be there, and what is above it is wanted all the same.
 */
ALWAYS_INLINE void copy_stack(struct sample *s)
{
	__u32 at = words_before_stack(s);
	__u64 from = (s->sp - RED_ZONE) & ~(STACK_PAGE - 1ULL);

	_Static_assert(MAX_KERNEL_FRAMES + MAX_USER_FRAMES * FRAME_WORDS + GENERAL_REGISTERS <= MAX_FRAME_WORDS - 1, "frames end below the mask");
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	at &= MAX_FRAME_WORDS - 1;
	for (__u32 i = 0; i < STACK_PAGES; i++) {
		if (bpf_probe_read_user(&s->words[at + i * (STACK_PAGE / 8)], STACK_PAGE, (const void *)(from + i * STACK_PAGE)))
			continue;
		s->stack_pages |= 1U << i;
		s->stack_bytes = (i + 1) * STACK_PAGE;
	}
}

/* Decides what to copy next: on up the stack while there is something, then the other one. */
ALWAYS_INLINE void find_next_part(struct scratch *scratch, struct sample *s)
{
	__u64 from = (s->sp - RED_ZONE) & ~(STACK_PAGE - 1ULL);

	scratch->part = 0;
	if (++scratch->parts > MAX_PARTS || bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA) * 2 > bpf_ringbuf_query(&samples, BPF_RB_RING_SIZE))
		return;
	if (s->stack_pages >> (STACK_PAGES - 1)) {
		scratch->part = from + MAX_STACK_BYTES;
	} else {
		scratch->part = scratch->other_stack;
		scratch->other_stack = 0;
	}
	if (scratch->part)
		s->flags |= SAMPLE_CONTINUED;
}

/* Copying is dear, so there is a limit to it: rates above 256 Hz do not copy every stack. */
ALWAYS_INLINE int may_copy(struct scratch *scratch)
{
	__u64 second = scratch->sample.time >> 30; /* 1.07 s will do */

	if (scratch->copy_second != second) {
		scratch->copy_second = second;
		scratch->copies = 0;
	}
	return scratch->copies++ < MAX_COPIES;
}

/* The program is being replaced: the user registers are of one that is gone, or not there yet. */
ALWAYS_INLINE int in_execve(const struct sample *s)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return !(s->flags & SAMPLE_IN_USER) && bpf_core_field_exists(task->in_execve) && BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

ALWAYS_INLINE int walk_failed(int outcome)
{
	return outcome == OUTCOME_UNREADABLE_STACK || outcome == OUTCOME_NO_MAPPING || outcome == OUTCOME_PROCESS_UNKNOWN;
}

/* User space may be able to go on, if it has the stack. */
ALWAYS_INLINE int walk_missed(int outcome)
{
	return outcome == OUTCOME_NO_MAPPING || outcome == OUTCOME_PROCESS_UNKNOWN || outcome == OUTCOME_PAGE_MISSING ||
	       outcome == OUTCOME_UNSUPPORTED_RULE;
}

ALWAYS_INLINE void emit_sample(struct scratch *scratch, struct counters *c, int outcome)
{
	struct unwinder *u = &scratch->unwinder;
	struct sample *s = &scratch->sample;

	s->outcome = (__u8)outcome;
	if (u->exact)
		s->flags |= SAMPLE_EXACT_PC;
	s->pc = u->regs.pc;
	s->sp = u->regs.sp;
	s->fp = u->regs.fp;
	s->lr = u->lr_valid ? u->regs.lr : 0;
	scratch->part = 0;
	if (walk_missed(outcome) && (config & CONFIG_COPY_STACKS)) {
		if (may_copy(scratch)) {
			copy_registers(u, s);
			copy_stack(s);
			scratch->parts = 0;
			find_next_part(scratch, s);
			c->copies++;
			c->copied_bytes += s->stack_bytes;
		} else {
			c->uncopied++;
		}
	}

	__u64 size = sizeof(*s) - sizeof(s->words) + 8 * words_before_stack(s) + s->stack_bytes;
	if (size > sizeof(*s))
		return;
	/* Waking the reader costs 1.4 us, so it drains on a timer; but what missed, it should mend at once. */
	long failed = bpf_ringbuf_output(&samples, s, size, walk_missed(outcome) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	if (failed)
		c->lost++;
	else if (outcome >= 0 && outcome < OUTCOMES)
		c->outcomes[outcome]++;
}

#endif
