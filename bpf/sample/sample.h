/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The parts of a sample besides its frames, and its end: the only exit, which counts the outcome. */
#ifndef HEADWATER_SAMPLE_H
#define HEADWATER_SAMPLE_H

#include "copy.h"
#include "ring.h"

ALWAYS_INLINE void take_kernel_stack(struct bpf_perf_event_data *ctx, struct sample *s)
{
	long n = bpf_get_stack(ctx, body(s, 0), MAX_KERNEL_FRAMES * 8, 0);

	if (n > 0 && n <= MAX_KERNEL_FRAMES * 8)
		s->kernel_frames = (__u16)(n / 8);
}

ALWAYS_INLINE int walk_failed(int outcome)
{
	return outcome == OUTCOME_UNREADABLE_STACK || outcome == OUTCOME_NO_MAPPING ||
	       outcome == OUTCOME_PROCESS_UNKNOWN;
}

/* User space may be able to continue, if it has the stack. */
ALWAYS_INLINE int walk_missed(int outcome)
{
	return outcome == OUTCOME_NO_MAPPING || outcome == OUTCOME_PROCESS_UNKNOWN || outcome == OUTCOME_PAGE_MISSING ||
	       outcome == OUTCOME_UNSUPPORTED_RULE;
}

/*
 * Whether user space needs the stack to complete the walk: if a table was missed; in code that a program generated,
 * which user space reads; from the leaf; or of a 32-bit task.
 */
ALWAYS_INLINE int wants_stack(const struct unwinder *u, const struct sample *s, int outcome)
{
	return walk_missed(outcome) || (COPIES_32BIT_STACKS && outcome == OUTCOME_TASK_32BIT) ||
	       (outcome == OUTCOME_NO_ROW && !u->mapping.exe) || (s->flags & SAMPLE_FROM_LEAF);
}

/* Whether a walk that seems right may have used old mappings. Such a sample does not wake user space. */
ALWAYS_INLINE int is_precaution(const struct process *p, int outcome)
{
	return p && (p->flags & PROCESS_RESTLESS) && outcome < OUTCOME_TASK_32BIT;
}

/*
 * Whether user space should walk from the leaf, where every register is known: rows cannot express the rule, or may
 * have been old.
 */
ALWAYS_INLINE int wants_leaf(const struct process *p, int outcome)
{
	if (outcome == OUTCOME_UNSUPPORTED_RULE || is_precaution(p, outcome))
		return 1;
	return p && (p->flags & PROCESS_MAKES_CODE) &&
	       (outcome == OUTCOME_NO_MAPPING || outcome == OUTCOME_NO_ROW || outcome == OUTCOME_NO_PROGRESS ||
		outcome == OUTCOME_UNREADABLE_STACK);
}

/* Stores the outcome and the last registers of a walk. */
ALWAYS_INLINE void end_walk(const struct unwinder *u, struct sample *s, int outcome)
{
	s->outcome = (__u8)outcome;
	if (u->exact)
		s->flags |= SAMPLE_EXACT_PC;
	s->pc = u->regs.pc;
	s->sp = u->regs.sp;
	s->fp = u->regs.fp;
	s->lr = u->lr_valid ? u->regs.lr : 0;
}

ALWAYS_INLINE void end_sample(struct sample_ring *ring, int outcome)
{
	struct counters *c = &ring->counters;
	struct unwinder *u = &ring->unwinder;
	struct sample *s = next_sample(ring);

	end_walk(u, s, outcome);
	ring->part.next = 0;
	if (wants_stack(u, s, outcome) && (config & CONFIG_COPY_STACKS)) {
		ring->other.own_end = end_of_stack(s->sp, ring->other.own_end);
		if (may_copy(ring, s)) {
			copy_registers(u, s);
			copy_stack(ring, s);
			if (u->probed)
				restore_returns(s->cpu, sizeof(*s) / 8 + words_before_stack(s), first_stack_page(s),
						s->stack_bytes);
			s->last_frames = last_frames(s->sp);
			set_size(s);
			ring->part.copied = 0;
			ring->part.time = s->time;
			find_next_part(ring, s);
			ring->copies.made++;
			ring->copies.words += s->stack_bytes / 8;
			c->copies++;
			c->copied_bytes += s->stack_bytes;
		} else {
			c->uncopied++;
		}
	}
	if (outcome >= 0 && outcome < OUTCOMES)
		c->outcomes[outcome]++;
	set_size(s);
	ring->next = end_of(ring, s);
}

#endif
