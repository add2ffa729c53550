// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Entry points. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "abi/abi.h"
#include "unwind/regs.h"

#include "kernel/walks.h"

char _license[] SEC("license") = "GPL";

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = (__u32)(id >> 32);
	__u32 cpu = bpf_get_smp_processor_id();
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	struct counters *c = &ring->counters;
	__u32 kind = (__u32)ring->kind;
	ring->kind = KIND_CPU;
	if (kind)
		c->events++;
	else
		c->ticks++;
	if (!pid && !kind) {
		c->idle++;
		return 0;
	}
	struct process *p = bpf_map_lookup_elem(&processes, &pid);
	if (p ? p->flags & PROCESS_IGNORED : config & CONFIG_KNOWN_ONLY) {
		if (!kind)
			c->ignored++;
		return 0;
	}
	if (!has_room(ring, ring->next)) {
		if (kind)
			c->events_lost++;
		else
			c->lost++;
		return 0;
	}

	struct unwinder *u = &ring->unwinder;
	struct sample *s = next_sample(ring);
	begin_sample(s, id);
	s->kind = kind;
	s->period = (__u32)ctx->sample_period;
	if ((config & CONFIG_KERNEL_STACKS) && !REGS_IN_USER_MODE(&ctx->regs))
		take_kernel_stack(ctx, s);
	int outcome = OUTCOME_NOT_COLLECTED;
	if (config & CONFIG_USER_STACKS) {
		outcome = find_user_registers(&ctx->regs, u, s);
		want_slots(ring, p);
		if (!outcome)
			outcome = walk(u, s, cpu, p);
		if (walk_failed(outcome) && in_execve(s)) {
			s->user_frames = 0;
			outcome = OUTCOME_NO_USER_REGISTERS;
		}
		take_runtime(ring, p, cpu, outcome);
	}
	if (wants_leaf(p, outcome) && !find_user_registers(&ctx->regs, u, s)) {
		s->flags |= SAMPLE_FROM_LEAF;
		if (is_precaution(p, outcome))
			s->flags |= SAMPLE_PRECAUTION;
		if (may_be_in_trampoline(u))
			leave_trampoline(cpu);
	}
	int wanted = wants_stack(u, s, outcome);
	if (wanted)
		find_other_stack(cpu);
	end_sample(ring, outcome);
	if (ring->part.next) {
		for (int i = 0; i < MAX_PARTS && take_part(cpu); i++)
			;
	}
	emit_sample(ring, wanted && (walk_missed(outcome) || !(s->flags & SAMPLE_PRECAUTION)));
	/* 1 lets the event write its own record, as it does without a program. */
	return config & CONFIG_KEEP_EVENTS ? 1 : 0;
}

/*
 * Has sample_cpu take a sample of another kind, as it is the only program with the walk. The kernel runs no program of
 * a perf event while another program runs on the CPU, so the ring belongs to this program until both have ended.
 */
ALWAYS_INLINE int sample_event(struct bpf_perf_event_data *ctx, __u32 kind)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	ring->kind = kind;
	bpf_tail_call(ctx, &takers, 0);
	ring->kind = KIND_CPU; /* there is no program to call */
	return 0;
}

SEC("perf_event")
int sample_fault(struct bpf_perf_event_data *ctx)
{
	return sample_event(ctx, KIND_PAGE_FAULTS);
}

SEC("perf_event")
int sample_major(struct bpf_perf_event_data *ctx)
{
	return sample_event(ctx, KIND_MAJOR_FAULTS);
}
