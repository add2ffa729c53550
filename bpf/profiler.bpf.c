// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Entry points. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "abi.h"
#if defined(__TARGET_ARCH_x86)
#include "regs_x86.h"
#elif defined(__TARGET_ARCH_arm64)
#include "regs_arm64.h"
#else
#error "no registers known for this architecture"
#endif

/* linux/bpf_perf_event.h, without the headers of one architecture. */
struct bpf_perf_event_data {
	sampled_regs regs;
	__u64 sample_period;
	__u64 addr;
};

static struct slab *table_slab(__u32 index);
#define read_user(dst, size, addr) bpf_probe_read_user(dst, size, (const void *)(addr))

#include "unwind.h"
#include "maps.h"
#include "pack.h"
#include "sample.h"

char _license[] SEC("license") = "GPL";

static inline __attribute__((always_inline)) struct slab *table_slab(__u32 index)
{
	__u32 number = index >> SLAB_SHIFT, zero = 0;
	void *slab = bpf_map_lookup_elem(&slabs, &number);

	return slab ? bpf_map_lookup_elem(slab, &zero) : 0;
}

/*
 * One frame of the user stack: where we are, then on to the caller. A global
 * function, so that the verifier looks at it once and not once a frame; state is
 * in a map, because 5.10 lets global functions take no pointers.
 */
__attribute__((noinline)) int walk_frame(__u32 cpu)
{
	struct log *log = bpf_map_lookup_elem(&logs, &cpu);
	struct frame f;

	if (!log)
		return OUTCOME_NO_USER_REGISTERS;
	struct unwinder *u = &log->unwinder;
	struct sample *s = next_sample(log);

	if (s->user_frames >= MAX_USER_FRAMES)
		return OUTCOME_DEPTH_LIMIT;
	__u64 *to = body(s, s->kernel_frames + s->user_frames * FRAME_WORDS);
	int r = locate(u, &f);
	to[0] = f.address;
	to[1] = f.exe | (__u64)f.flags << 32;
	s->user_frames++;
	if (r)
		return r;
	r = step(u);
	/* Only a signal leads to an exact pc: this was its trampoline, which nobody called. */
	if (!r && u->exact)
		to[1] = f.exe | (__u64)(f.flags & ~FRAME_RETURN_ADDRESS) << 32;
	return r;
}

/*
 * A process that has executed a new program has none of the mappings that user
 * space told us before. Where the kernel put its stack tells programs apart: it
 * is random, children inherit it, and it is 0 while a program is being replaced.
 * The first sample after an update notes it.
 */
ALWAYS_INLINE int is_same_program(struct process *p, const struct sample *s)
{
	__u64 program = first_stack_word();

	/* Inside execve it is not final yet. */
	if (!p->program && !in_execve(s))
		p->program = program;
	return program && p->program == program;
}

ALWAYS_INLINE int walk(struct unwinder *u, struct sample *s, __u32 cpu, struct process *p)
{
	u->mapping.start = u->mapping.end = 0;
	u->mappings = u->mapping_count = 0;
	if (p && is_same_program(p, s)) {
		u->mappings = p->mappings;
		u->mapping_count = p->count;
		s->generation = p->generation;
	}
	for (int i = 0; i <= MAX_USER_FRAMES; i++) {
		int r = walk_frame(cpu);
		if (r)
			return r;
	}
	return OUTCOME_DEPTH_LIMIT;
}

/*
 * Follows frame pointers from where the walk missed to the end of the stack, or to
 * another one, as Go's runtime has one of its own, below which that of a goroutine
 * goes on. A chain counts if all of it but the end was called.
 */
__attribute__((noinline)) int find_other_stack(__u32 cpu)
{
	struct log *log = bpf_map_lookup_elem(&logs, &cpu);

	if (!log)
		return 0;
	__u64 low = log->unwinder.regs.sp - RED_ZONE, fp = log->unwinder.regs.fp;
	__u64 record[2], last = 0, end;

	log->other_stack = 0;
	log->stack_end = 0;
	log->other_end = 0;
	for (int i = 0; i < MAX_RECORDS_TO_OTHER_STACK; i++) {
		if ((fp & 7) || read_user(record, sizeof(record), fp))
			return 0;
		int called = follows_call(STRIP_PAC(record[1]));
		if (!called && is_trampoline(STRIP_PAC(record[1]))) {
			__u64 sp = interrupted_stack(fp);
			if (sp && (sp < low || sp - low >= MAX_PARTS_TO_UNKNOWN * MAX_STACK_BYTES)) {
				if (log->other_stack)
					return 0;
				log->other_stack = (sp - RED_ZONE) & ~(STACK_PAGE - 1ULL);
				log->stack_end = fp + STACK_PAGE;
				low = sp - RED_ZONE;
			}
			called = 1;
		}
		if (fp < low || fp - low >= MAX_PARTS_TO_UNKNOWN * MAX_STACK_BYTES) {
			if (!called || log->other_stack)
				return 0;
			log->other_stack = fp & ~(STACK_PAGE - 1ULL);
			log->stack_end = (last ? last : low) + STACK_PAGE;
			low = fp;
		}
		if (!record[0] && last) {
			/* Nobody called the first function of a goroutine; that of a thread may have been, without frame pointers. */
			end = fp + sizeof(record) + (called ? FRAMES_WITHOUT_POINTER : 0);
			if (log->other_stack)
				log->other_end = end;
			else
				log->stack_end = end;
		}
		if (!record[0] || !called)
			return 0;
		last = fp;
		fp = record[0];
	}
	return 0;
}

/* Reads the page of the stack at an address to the end of the part and packs it. Tells whether it was there. */
__attribute__((noinline)) int pack_page(__u32 cpu, __u64 from)
{
	struct log *log = bpf_map_lookup_elem(&logs, &cpu);

	if (!log)
		return 0;
	__u64 *part = (__u64 *)(next_sample(log) + 1), at = log->packed;
	if (at > MAX_PART_WORDS - PAGE_WORDS - PAIR_BITS_WORDS)
		return 0;
	__u64 *words = part + at;
	if (bpf_probe_read_user(words + PAIR_BITS_WORDS, STACK_PAGE, (const void *)from))
		return 0;
	pack(part, at, &log->packed);
	return 1;
}

/* Takes one more part of the stack, and tells whether another follows. */
__attribute__((noinline)) int take_part(__u32 cpu)
{
	struct log *log = bpf_map_lookup_elem(&logs, &cpu);

	if (!log)
		return 0;
	struct sample *s = next_sample(log);
	begin_sample(s, bpf_get_current_pid_tgid());
	s->time = log->part_time;
	s->flags = SAMPLE_PART;
	s->sp = log->part + RED_ZONE;
	log->packed = 0;
	__u64 from = first_page(s), end = log->stack_end;
	for (__u32 i = 0; i < STACK_PAGES; i++) {
		if (end && from + i * STACK_PAGE >= end)
			break;
		if (pack_page(cpu, from + i * STACK_PAGE))
			s->stack_pages |= 1U << i;
	}
	s->stack_bytes = (__u32)log->packed * 8;
	set_size(s);
	find_next_part(log, s);
	log->next = end_of(log, s);
	return log->part != 0;
}

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = (__u32)(id >> 32);
	__u32 cpu = bpf_get_smp_processor_id();
	struct log *log = bpf_map_lookup_elem(&logs, &cpu);

	if (!log)
		return 0;
	struct counters *c = &log->counters;
	c->ticks++;
	if (!pid) {
		c->idle++;
		return 0;
	}
	struct process *p = bpf_map_lookup_elem(&processes, &pid);
	if (p && (p->flags & PROCESS_IGNORED)) {
		c->ignored++;
		return 0;
	}
	if (!has_room(log, log->next)) {
		c->lost++;
		return 0;
	}

	struct unwinder *u = &log->unwinder;
	struct sample *s = next_sample(log);
	begin_sample(s, id);
	if ((config & CONFIG_KERNEL_STACKS) && !REGS_IN_USER_MODE(&ctx->regs))
		take_kernel_stack(ctx, s);
	int outcome = OUTCOME_NOT_COLLECTED;
	if (config & CONFIG_USER_STACKS) {
		outcome = find_user_registers(ctx, u, s);
		if (!outcome)
			outcome = walk(u, s, cpu, p);
		if (walk_failed(outcome) && in_execve(s)) {
			s->user_frames = 0;
			outcome = OUTCOME_NO_USER_REGISTERS;
		}
	}
	if (wants_leaf(p, outcome) && !find_user_registers(ctx, u, s))
		s->flags |= SAMPLE_FROM_LEAF;
	int wanted = wants_stack(u, s, outcome);
	if (wanted)
		find_other_stack(cpu);
	end_sample(log, outcome);
	if (log->part) {
		for (int i = 0; i < MAX_PARTS && take_part(cpu); i++)
			;
	}
	emit_sample(log, wanted);
	/* 1 lets the event go on to what it would do without a program. */
	return config & CONFIG_KEEP_EVENTS ? 1 : 0;
}
