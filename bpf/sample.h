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
#if defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} __attribute__((preserve_access_index));
#define THREAD_POINTER thread.uw.tp_value
#else
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));
#define THREAD_POINTER thread.fsbase
#endif
struct task_struct {
	void *stack;
	unsigned int flags;
	struct mm_struct *mm;
	unsigned in_execve : 1;
	struct thread_struct thread;
} __attribute__((preserve_access_index));
struct pt_regs___kernel {
	unsigned long first;
} __attribute__((preserve_access_index));

enum {
	PF_KTHREAD = 0x00200000,
	KERNEL_STACK_SIZE = 16384, /* without KASAN; only used where bpf_task_pt_regs is missing */
};

/*
 * Where the sample that is being taken begins. Masked at each use, since the
 * verifier forgets what it knew of a value in a map.
 */
ALWAYS_INLINE struct sample *next_sample(struct log *log)
{
	return (struct sample *)&log->words[log->next & (LOG_WORDS - 1)];
}

/* The words of a sample behind its head, from `at` on. */
ALWAYS_INLINE __u64 *body(struct sample *s, __u32 at)
{
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	return (__u64 *)(s + 1) + (at & (MAX_FRAME_WORDS - 1));
}

ALWAYS_INLINE __u64 tail_of(const struct log *log)
{
	return *(volatile __u64 *)&log->tail;
}

/* Whether the largest sample fits at a word, and `head` will not meet `tail`, which would mean that nothing is there. */
ALWAYS_INLINE int has_room(const struct log *log, __u64 at)
{
	__u64 tail = tail_of(log);

	if (tail > at)
		return tail - at > SAMPLE_WORDS;
	return tail || at + SAMPLE_WORDS < LOG_WORDS;
}

/*
 * Whether so many words with a copy of a stack may be put at a word: it must leave room for the
 * samples to come: one of 64 KiB takes as much as some thirty to a hundred of them.
 */
ALWAYS_INLINE int has_room_for_copy(const struct log *log, __u64 at, __u64 words)
{
	__u64 tail = tail_of(log), room = tail > at ? tail - at : tail + LOG_WORDS - at;

	return room > words + LOG_RESERVE;
}

/* Where the next sample is after this one. */
ALWAYS_INLINE __u64 end_of(const struct log *log, const struct sample *s)
{
	__u64 end = log->next + s->size;

	return end < LOG_WORDS ? end : 0;
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
	long n = bpf_get_stack(ctx, body(s, 0), MAX_KERNEL_FRAMES * 8, 0);

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

ALWAYS_INLINE void set_size(struct sample *s)
{
	s->size = (__u16)((sizeof(*s) + s->stack_bytes) / 8 + words_before_stack(s));
}

/* Copies the general registers behind the frames, if any is known. */
ALWAYS_INLINE void copy_registers(const struct unwinder *u, struct sample *s)
{
	__u64 *to = body(s, words_before_stack(s));

	if (!u->full && !u->rbx_known)
		return;
	s->flags |= u->full ? SAMPLE_REGISTERS : SAMPLE_RBX;
	for (int i = 0; i < GENERAL_REGISTERS; i++)
		to[i] = u->regs.general[i];
}

/* Where the kernel began the stack of the program's first thread: above are its arguments and environment. */
ALWAYS_INLINE __u64 first_stack_word(void)
{
	return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), mm, start_stack);
}

/*
 * What C libraries keep of a thread, above the frames on the stack that they have
 * given it; 0 if that is elsewhere. On x86 it begins with its own address.
 */
ALWAYS_INLINE __u64 thread_descriptor(void)
{
	__u64 at = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), THREAD_POINTER);

#if !defined(__TARGET_ARCH_arm64)
	__u64 self;

	if (read_user(&self, sizeof(self), at) || self != at)
		return 0;
#endif
	return at;
}

/*
 * Where the stack at sp ends above which there are no frames; 0 if that is not
 * known. That of a program's first thread ends where the kernel began it. Of others
 * frame pointers may tell, or else their thread's descriptor.
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

ALWAYS_INLINE __u64 first_page(const struct sample *s)
{
	return (s->sp - RED_ZONE) & ~(STACK_PAGE - 1ULL);
}

/*
 * Copies the user stack behind the frames, page by page: what a frame has not
 * touched may not be there, and what is above it is wanted all the same; but no
 * frame is above the stack's end.
 */
ALWAYS_INLINE void copy_stack(const struct log *log, struct sample *s)
{
	__u64 *to = body(s, words_before_stack(s));
	__u64 from = first_page(s);
	__u64 end = log->stack_end;

	for (__u32 i = 0; i < STACK_PAGES; i++) {
		if (end && from + i * STACK_PAGE >= end)
			break;
		if (bpf_probe_read_user(to + i * (STACK_PAGE / 8), STACK_PAGE, (const void *)(from + i * STACK_PAGE)))
			continue;
		s->stack_pages |= 1U << i;
		s->stack_bytes = (i + 1) * STACK_PAGE;
	}
}

/* Decides what to copy next: on up the stack while there is something, then the other one. */
ALWAYS_INLINE void find_next_part(struct log *log, struct sample *s)
{
	__u64 next = first_page(s) + MAX_STACK_BYTES;
	__u64 end = log->stack_end;

	log->part = 0;
	if (log->parts >= MAX_PARTS || log->all_parts >= MAX_ALL_PARTS ||
	    !has_room_for_copy(log, end_of(log, s), sizeof(*s) / 8 + MAX_PART_WORDS))
		return;
	/* Where the stack ends is memory that is not there: more than a page or two, which may be of a large frame. */
	if (end ? next < end : s->stack_pages && log->parts < MAX_PARTS_TO_UNKNOWN) {
		log->part = next;
	} else if (log->other_stack) {
		log->part = log->other_stack;
		log->stack_end = end_of_stack(log->other_stack, log->other_end);
		log->other_stack = 0;
	}
	if (!log->part)
		return;
	log->parts++;
	log->all_parts++;
	s->flags |= SAMPLE_CONTINUED;
}

/* Words of a sample with a copy of its stack, at most. */
ALWAYS_INLINE __u64 words_with_copy(const struct log *log, const struct sample *s)
{
	__u64 bytes = log->stack_end - first_page(s);

	if (!log->stack_end || bytes > MAX_STACK_BYTES)
		bytes = MAX_STACK_BYTES;
	return (sizeof(*s) + bytes + STACK_PAGE) / 8 + words_before_stack(s) + GENERAL_REGISTERS;
}

/* Copying is dear, so there is a limit to it: rates above 256 Hz do not copy every stack. Nor does a log that is nearly full. */
ALWAYS_INLINE int may_copy(struct log *log, const struct sample *s)
{
	__u64 second = s->time >> 30; /* 1.07 s will do */

	if (log->copy_second != second) {
		log->copy_second = second;
		log->copies = 0;
		log->all_parts = 0;
	}
	return has_room_for_copy(log, log->next, words_with_copy(log, s)) && log->copies++ < MAX_COPIES;
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

/*
 * It may be even where there are no rows but code that a program has made for itself: it reads that. Or where the walk
 * began, if there were old rows on the way.
 */
ALWAYS_INLINE int wants_stack(const struct unwinder *u, const struct sample *s, int outcome)
{
	return walk_missed(outcome) || (outcome == OUTCOME_NO_ROW && !u->mapping.exe) || (s->flags & SAMPLE_FROM_LEAF);
}

/* User space should walk from the leaf, where every register is known: rows cannot say what the rule is, or were old. */
ALWAYS_INLINE int wants_leaf(const struct process *p, int outcome)
{
	if (outcome == OUTCOME_UNSUPPORTED_RULE)
		return 1;
	return p && (p->flags & PROCESS_MAKES_CODE) && (outcome == OUTCOME_NO_MAPPING || outcome == OUTCOME_NO_ROW ||
		outcome == OUTCOME_NO_PROGRESS || outcome == OUTCOME_UNREADABLE_STACK);
}

/* Words from `tail` to `head`. */
ALWAYS_INLINE __u64 words_used(__u64 head, __u64 tail)
{
	return head >= tail ? head - tail : head + LOG_WORDS - tail;
}

/* Makes what was written before visible to who sees the new head. */
ALWAYS_INLINE void publish_head(struct log *log, __u64 head)
{
#if defined(__TARGET_ARCH_arm64)
	(void)__sync_lock_test_and_set(&log->head, head);
	asm volatile("" ::: "memory");
#else
	asm volatile("" ::: "memory"); /* x86 does not reorder stores */
	*(volatile __u64 *)&log->head = head;
#endif
}

ALWAYS_INLINE void end_sample(struct log *log, int outcome)
{
	struct counters *c = &log->counters;
	struct unwinder *u = &log->unwinder;
	struct sample *s = next_sample(log);

	s->outcome = (__u8)outcome;
	if (u->exact)
		s->flags |= SAMPLE_EXACT_PC;
	s->pc = u->regs.pc;
	s->sp = u->regs.sp;
	s->fp = u->regs.fp;
	s->lr = u->lr_valid ? u->regs.lr : 0;
	log->part = 0;
	if (wants_stack(u, s, outcome) && (config & CONFIG_COPY_STACKS)) {
		log->stack_end = end_of_stack(s->sp, log->stack_end);
		if (may_copy(log, s)) {
			copy_registers(u, s);
			copy_stack(log, s);
			set_size(s);
			log->parts = 0;
			log->part_time = s->time;
			find_next_part(log, s);
			c->copies++;
			c->copied_bytes += s->stack_bytes;
		} else {
			c->uncopied++;
		}
	}
	if (outcome >= 0 && outcome < OUTCOMES)
		c->outcomes[outcome]++;
	set_size(s);
	log->next = end_of(log, s);
}

/*
 * Hands over what was written. Waking user space costs more than taking a sample,
 * so it looks into the logs from time to time. But what missed, it should mend at
 * once; and it must not come too late.
 */
ALWAYS_INLINE void emit_sample(struct log *log, int urgent)
{
	__u64 tail = tail_of(log), head = log->head, next = log->next;
	int much = words_used(next, tail) > LOG_CALL && words_used(head, tail) <= LOG_CALL;

	publish_head(log, next);
	if (urgent || much)
		bpf_ringbuf_output(&calls, &head, sizeof(head), BPF_RB_FORCE_WAKEUP);
}

#endif
