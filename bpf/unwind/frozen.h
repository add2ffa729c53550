/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Walks the callers that a runtime keeps in its heap. When a virtual thread of Java waits, its frames are copied to
 * chunks in the heap. When it resumes, the innermost frames return to the stack, and the outermost one there returns to
 * a stub, whose rule is CFA_FROZEN. The other frames stay in the chunks until then.
 *
 * In a chunk, a frame of compiled code is as on the stack. In a frame of the interpreter, the saved frame pointer of a
 * caller in the interpreter, the stack pointer of the caller, and the pointer to the locals are in words, from their
 * own place or from the frame pointer. If a caller is not certain, the walk ends: OUTCOME_COMPLETE, after a frame with
 * FRAME_FROZEN or after the stub.
 */
#ifndef HEADWATER_FROZEN_H
#define HEADWATER_FROZEN_H

#include "../sample/maps.h"
#include "window.h"

enum {
	MAX_EMPTY_CHUNKS = 8, /* next to each other */
	MAX_CHUNK_WORDS = 1 << 22,
	MAX_ARGUMENT_BYTES = 4096, /* between the frames on the stack and the entry of the continuation */
	MOVED = 3, /* low bits of an object's first word: a garbage collector has moved the object, or does so */
	NO_CHUNK = 1, /* with frames */
	CHUNK_ENDS = -1, /* not an outcome */
};

ALWAYS_INLINE const struct frozen *frozen_of(const struct unwinder *u)
{
	__u32 number = (__u32)u->interpreter;
	const struct interpreter *in = bpf_map_lookup_elem(&interpreters, &number);

	return in && in->frozen.descriptor ? &in->frozen : 0;
}

/* Whether an object is not where a reference leads to, or cannot be read. */
ALWAYS_INLINE int is_away(__u64 object)
{
	__u64 mark;

	return read_user(&mark, sizeof(mark), object) || (mark & MOVED) == MOVED;
}

/* Makes a reference of 64 bits an address, 0 if there is no object. Fails if the object may have moved. */
ALWAYS_INLINE int address_of(const struct frozen *f, __u64 bias, __u64 *reference)
{
	__u64 bad, shift;

	if (!(*reference >> REFERENCE_COLOR_BITS)) {
		*reference = 0;
		return 0;
	}
	if (!f->bad_bits)
		return is_away(*reference);
	if (read_user(&bad, sizeof(bad), bias + f->bad_bits) || (*reference & bad))
		return -1;
	if (f->color_shift) {
		if (read_user(&shift, sizeof(shift), bias + f->color_shift))
			return -1;
		*reference >>= shift & 63;
	}
	return is_away(*reference);
}

/* Follows the reference at an address, as address_of does. */
ALWAYS_INLINE int follow(const struct frozen *f, __u64 bias, __u64 at, __u64 *object)
{
	__u32 narrow;

	if (f->reference_bytes == 8)
		return read_user(object, sizeof(*object), at) || address_of(f, bias, object);
	if (read_user(&narrow, sizeof(narrow), at))
		return -1;
	*object = narrow ? f->base + ((__u64)narrow << (f->shift & 31)) : 0;
	return *object ? is_away(*object) : 0;
}

/*
 * Enters the innermost frame of the first chunk that has frames, from `next_chunk` outwards. The functions of this file
 * do not call each other: the stacks of nested BPF functions have at most 512 bytes together.
 */
__attribute__((noinline)) int enter_chunk(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return -1;
	struct unwinder *u = &ring->unwinder;
	const struct frozen *f = frozen_of(u);
	__u32 size, sp, bottom;
	__u64 class, chunk = u->next_chunk;

	if (!f)
		return -1;
	for (int i = 0; i < MAX_EMPTY_CHUNKS; i++) {
		if (!chunk)
			return NO_CHUNK;
		if (read_user(&class, sizeof(class), chunk + f->class_at) || (class & f->class_mask) != f->class)
			return -1;
		if (read_user(&size, sizeof(size), chunk + f->chunk_size) ||
		    read_user(&sp, sizeof(sp), chunk + f->chunk_sp) ||
		    read_user(&bottom, sizeof(bottom), chunk + f->chunk_bottom))
			return -1;
		if (f->bottom_from_end)
			bottom = size - bottom;
		if (size > MAX_CHUNK_WORDS || bottom > size || sp > size)
			return -1;
		__u64 start = chunk + f->chunk_stack;

		if (sp < bottom) {
			u->frozen_end = start + 8 * (__u64)bottom;
			u->regs.sp = start + 8 * (__u64)sp;
			u->frozen_slot = u->regs.sp - 16;
			if (sp < 2 || read_user(&u->regs.fp, sizeof(u->regs.fp), u->frozen_slot) ||
			    read_user(&u->regs.pc, sizeof(u->regs.pc), u->frozen_slot + 8))
				return -1;
			u->chunk = chunk;
			forget_registers(u);
			u->frame_flags = FRAME_FROZEN;
			return 0;
		}
		if (follow(f, u->bias, chunk + f->chunk_parent, &chunk))
			return -1;
	}
	return -1;
}

/*
 * Leaves the frames on the stack for their callers in the heap. The runtime's descriptor of the thread leads to the
 * thread's continuation; a continuation within another one is not read.
 */
__attribute__((noinline)) int enter_frozen(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return -1;
	struct unwinder *u = &ring->unwinder;
	const struct frozen *f = frozen_of(u);
	__u64 own = thread_pointer(), thread, at;

	if (!f || !own || u->exact || u->chunk)
		return -1;
	if (read_user(&thread, sizeof(thread), own + f->descriptor) ||
	    read_user(&at, sizeof(at), thread + f->os_thread) || read_user(&at, sizeof(at), at + f->os_thread_own) ||
	    at != own)
		return -1;
	if (read_user(&u->frozen_entry, sizeof(u->frozen_entry), thread + f->entry) ||
	    u->frozen_entry - u->regs.sp > MAX_ARGUMENT_BYTES)
		return -1;
	/* Before the runtime copies frames of the stack to the heap, it notes that the stack has none. */
	if (read_user(&at, sizeof(at), thread + f->last_sp) || at == u->frozen_entry)
		return -1;
	if (read_user(&at, sizeof(at), thread + f->carrier) || read_user(&at, sizeof(at), at) ||
	    address_of(f, u->bias, &at) || !at)
		return -1;
	if (follow(f, u->bias, at + f->continuation, &at) || !at)
		return -1;
	if (follow(f, u->bias, at + f->outer, &thread) || thread)
		return -1;
	return follow(f, u->bias, at + f->chunk, &u->next_chunk);
}

/* Whether frames of the interpreter have this rule. */
ALWAYS_INLINE int is_interpreted(const struct wide_rule *rule)
{
	return rule->cfa == CFA_FP_DEREF && rule->rules == (FP_AT_FP | RA_AT_FP << 4);
}

/* Makes the frame pointer of a frame in a chunk an address. */
ALWAYS_INLINE void find_frozen_fp(struct unwinder *u)
{
	if (is_interpreted(&u->rule))
		u->regs.fp = u->frozen_slot + 8 * u->regs.fp;
}

/* The walk goes back to the stack, to the caller of the outermost frame in the heap. */
__attribute__((noinline)) int leave_chunks(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return OUTCOME_COMPLETE;
	struct unwinder *u = &ring->unwinder;
	const struct frozen *f = frozen_of(u);

	if (!f || read_user(&u->regs.pc, sizeof(u->regs.pc), u->bias + f->entry_pc))
		return OUTCOME_COMPLETE;
	u->regs.sp = u->frozen_entry;
	u->regs.fp = u->frozen_entry + f->entry_bytes;
	forget_registers(u);
	u->frame_flags = 0;
	u->chunk = 0;
	return OUTCOME_UNSET;
}

/* Goes to the caller of a frame in a chunk. CHUNK_ENDS: the caller is in `next_chunk`. */
__attribute__((noinline)) int step_frozen(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return OUTCOME_COMPLETE;
	struct unwinder *u = &ring->unwinder;
	const struct frozen *f = frozen_of(u);
	__u64 fp = u->regs.fp, end = u->frozen_end, slot, sp, word;

	if (!f)
		return OUTCOME_COMPLETE;
	if (is_interpreted(&u->rule)) {
		slot = fp;
		if ((fp & 7) || fp <= u->frozen_slot || fp >= end || read_word(u, fp - f->locals_below, &word))
			return OUTCOME_COMPLETE;
		if (fp + 8 * word + 8 >= end)
			goto ends;
		if (read_word(u, fp - 8, &word))
			return OUTCOME_COMPLETE;
		sp = fp + 8 * word;
	} else if (u->rule.cfa == CFA_SP && u->rule.rules >> 4 == RA_DEFAULT) {
		sp = u->regs.sp + u->rule.cfa_off;
		if (sp == end)
			goto ends;
		slot = sp - 16;
	} else {
		return OUTCOME_COMPLETE;
	}
	if (slot <= u->frozen_slot || slot + 16 > end || sp > end)
		return OUTCOME_COMPLETE;
	if (read_word(u, slot, &u->regs.fp) || read_word(u, slot + 8, &u->regs.pc))
		return OUTCOME_COMPLETE;
	u->frozen_slot = slot;
	u->regs.sp = sp;
	forget_registers(u);
	return OUTCOME_UNSET;
ends:
	return follow(f, u->bias, u->chunk + f->chunk_parent, &u->next_chunk) ? OUTCOME_COMPLETE : CHUNK_ENDS;
}

#endif
