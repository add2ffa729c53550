/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Walks a user stack, from the leaf towards its end. */
#ifndef HEADWATER_WALK_H
#define HEADWATER_WALK_H

#include "frozen.h"
#include "../sample/ring.h"
#include "rules.h"
#include "../kernel/task.h"
#include "trampoline.h"

#include "step.h" /* uses definitions of the headers above */

/*
 * Makes the sample's frame for the current registers, and finds u->rule, by which to leave it. Sets u->mapping; for a
 * remembered rule, only its exe.
 */
ALWAYS_INLINE int locate(struct unwinder *u, struct cached_rule *rules, struct frame *f)
{
	__u64 addr = u->regs.pc - !u->exact, row;
	struct cached_rule *c = cache_place(u, rules, addr);

	f->flags = u->frame_flags | (u->exact ? 0 : FRAME_RETURN_ADDRESS);
	if (is_cached(u, c, addr)) {
		if (u->mapping.exe != c->exe) { /* the mapping is of another file */
			u->mapping.start = u->mapping.end = 0;
			u->mapping.exe = c->exe;
		}
		f->exe = c->exe;
		f->address = u->regs.pc - c->bias;
		widen(c->row, &u->rule);
		return OUTCOME_UNSET;
	}
	u->rule.cfa = CFA_NONE;
	f->address = u->regs.pc;
	f->exe = 0;
	int r = find_mapping(u, addr);
	if (r)
		return r;
	f->exe = u->mapping.exe;
	if (f->exe)
		f->address -= u->mapping.bias;
	if (!u->mapping.directory)
		return OUTCOME_UNSET;
	r = find_rule(u, addr - u->mapping.bias, &u->rule, &row);
	if (!r && f->exe && row && u->rule.cfa != CFA_ABSENT)
		cache(u, c, addr, row);
	return r;
}

/* Notes a native frame that may stand for frames of a language. */
ALWAYS_INLINE void note_slot(struct sample_ring *ring, const struct frame *f, __u64 fp, __u32 number)
{
	__u64 n = ring->slots.count;

	if (n >= MAX_SLOTS || (f->exe && (f->address < ring->slots.low || f->address >= ring->slots.high)))
		return;
	ring->slots.at[n & (MAX_SLOTS - 1)].fp = fp;
	ring->slots.at[n & (MAX_SLOTS - 1)].frame = number;
	ring->slots.count = n + 1;
}

/*
 * Adds one frame of the user stack to the sample and continues with the caller. It is a global function, so that the
 * verifier checks it once and not once a frame; state is in a map, because 5.10 lets global functions take no pointers.
 */
__attribute__((noinline)) int walk_frame(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);
	struct frame f;

	if (!ring)
		return OUTCOME_NO_USER_REGISTERS;
	struct unwinder *u = &ring->unwinder;
	struct sample *s = next_sample(ring);

	if (s->user_frames >= MAX_USER_FRAMES)
		return OUTCOME_DEPTH_LIMIT;
	__u64 *to = body(s, s->kernel_frames + s->user_frames * FRAME_WORDS);
	if (may_be_in_trampoline(u))
		leave_trampoline(cpu);
	int r = locate(u, ring->rules, &f);
	if (u->rule.cfa == CFA_FROZEN && !u->exact) {
		if (!enter_frozen(cpu) && !enter_chunk(cpu))
			return OUTCOME_UNSET;
		r = OUTCOME_COMPLETE;
	}
	if (u->chunk)
		find_frozen_fp(u);
	to[0] = f.address;
	to[1] = f.exe | (__u64)f.flags << 32;
	if (ring->slots.wanted)
		note_slot(ring, &f, u->regs.fp, s->user_frames);
	s->user_frames++;
	if (u->chunk) {
		r = r ? OUTCOME_COMPLETE : step_frozen(cpu);
		if (r != CHUNK_ENDS)
			return r;
		r = enter_chunk(cpu);
		return r == NO_CHUNK ? leave_chunks(cpu) : r ? OUTCOME_COMPLETE : OUTCOME_UNSET;
	}
	if (r)
		return r;
	/*
	 * Code that a program generates is analyzed before its frame pointer is trusted, unless its runtime keeps one.
	 */
	if (u->rule.cfa == CFA_NONE && !f.exe && !ring->slots.wanted && (config & CONFIG_COPY_STACKS))
		return OUTCOME_NO_ROW;
	r = apply_rule(u, &u->rule);
	/* Only a signal leads to an exact pc: this was its trampoline, which was not called. */
	if (!r && u->exact)
		to[1] = f.exe | (__u64)(f.flags & ~FRAME_RETURN_ADDRESS) << 32;
	return r;
}

/*
 * A process that has executed a new program has none of the mappings that user space stored before. User space knows
 * the number of the program after it has seen a sample of it, or of the parent. Until then the first sample after an
 * update notes it: if that is of a later program, user space drops the stack, as it knows the times of both.
 */
ALWAYS_INLINE int is_same_program(struct process *p, const struct sample *s)
{
	if (!p->exec)
		p->exec = s->exec;
	return s->exec && p->exec == s->exec;
}

ALWAYS_INLINE int walk(struct unwinder *u, struct sample *s, __u32 cpu, struct process *p)
{
	u->mapping.start = u->mapping.end = 0;
	u->mappings = u->mapping_count = 0;
	u->cached_generation = 0;
	u->chunk = u->interpreter = 0;
	s->exec = current_exec();
	if (p && is_same_program(p, s)) {
		u->mappings = p->mappings;
		u->mapping_count = p->count;
		s->generation = p->generation;
		u->interpreter = p->interpreter;
		u->bias = p->bias;
		begin_cache(u, p, row_changes, s->time);
		if (*(volatile __u32 *)&p->pid != s->pid || *(volatile __u32 *)&p->generation != s->generation) {
			u->mapping_count = 0;
			u->cached_generation = 0;
			s->generation = 0;
		}
	}
	for (int i = 0; i <= MAX_USER_FRAMES; i++) {
		int r = walk_frame(cpu);
		if (r)
			return r;
	}
	return OUTCOME_DEPTH_LIMIT;
}

#endif
