/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Copies the stack of a walk that missed a table, so that user space can continue. */
#ifndef HEADWATER_COPY_H
#define HEADWATER_COPY_H

#include "../unwind/code.h"
#include "pack.h"
#include "ring.h"
#include "../unwind/trampoline.h"

/* Copies the general registers after the frames, if any is known. */
ALWAYS_INLINE void copy_registers(const struct unwinder *u, struct sample *s)
{
	__u64 *to = body(s, words_before_stack(s));

	if (!u->full && !u->rbx_known)
		return;
	s->flags |= u->full ? SAMPLE_REGISTERS : SAMPLE_RBX;
	for (int i = 0; i < GENERAL_REGISTERS; i++)
		to[i] = u->regs.general[i];
}

ALWAYS_INLINE __u64 first_stack_page(const struct sample *s)
{
	return (s->sp - RED_ZONE) & ~(STACK_PAGE - 1ULL);
}

/*
 * Copies the user stack to after the frames, up to the stack's end. It does so page by page: a page that a large frame
 * has not touched is missing, but the pages above are needed.
 */
ALWAYS_INLINE void copy_stack(const struct sample_ring *ring, struct sample *s)
{
	__u64 *to = body(s, words_before_stack(s));
	__u64 from = first_stack_page(s);
	__u64 end = ring->other.own_end;

	for (__u32 i = 0; i < STACK_PAGES; i++) {
		if (end && from + i * STACK_PAGE >= end)
			break;
		if (bpf_probe_read_user(to + i * (STACK_PAGE / 8), STACK_PAGE, (const void *)(from + i * STACK_PAGE)))
			continue;
		s->stack_pages |= 1U << i;
		s->stack_bytes = (i + 1) * STACK_PAGE;
	}
}

/* Decides what to copy next: more of this stack while there is some, then the other stack. */
ALWAYS_INLINE void find_next_part(struct sample_ring *ring, struct sample *s)
{
	__u64 next = first_stack_page(s) + MAX_STACK_BYTES;
	__u64 end = ring->other.own_end;

	ring->part.next = 0;
	if (ring->part.copied >= MAX_PARTS || ring->copies.parts >= MAX_ALL_PARTS ||
	    !has_room_for_copy(ring, end_of(ring, s), sizeof(*s) / 8 + MAX_PART_WORDS))
		return;
	/* If the end is not known, a part without any page is taken as the end. */
	if (end ? next < end : s->stack_pages && ring->part.copied < MAX_PARTS_TO_UNKNOWN) {
		ring->part.next = next;
	} else if (ring->other.stack) {
		ring->part.next = ring->other.stack;
		ring->other.own_end = end_of_stack(ring->other.stack, ring->other.end);
		ring->other.stack = 0;
	}
	if (!ring->part.next)
		return;
	ring->part.copied++;
	ring->copies.parts++;
	s->flags |= SAMPLE_CONTINUED;
}

/* Words of a sample with a copy of its stack, at most. */
ALWAYS_INLINE __u64 words_with_copy(const struct sample_ring *ring, const struct sample *s)
{
	__u64 bytes = ring->other.own_end - first_stack_page(s);

	if (!ring->other.own_end || bytes > MAX_STACK_BYTES)
		bytes = MAX_STACK_BYTES;
	return (sizeof(*s) + bytes + STACK_PAGE) / 8 + words_before_stack(s) + GENERAL_REGISTERS;
}

/*
 * Copying is expensive, so the number and the words of copies are limited. New programs have small stacks, which
 * are all copied up to 1 kHz. A ring that is nearly full takes none.
 */
ALWAYS_INLINE int may_copy(struct sample_ring *ring, const struct sample *s)
{
	__u64 second = s->time >> 30; /* 1.07 s will do */

	if (ring->copies.second != second) {
		ring->copies.second = second;
		ring->copies.made = 0;
		ring->copies.words = 0;
		ring->copies.parts = 0;
	}
	return ring->copies.words < MAX_COPIED_WORDS && ring->copies.made < MAX_COPIES &&
	       has_room_for_copy(ring, ring->next, words_with_copy(ring, s));
}

/*
 * Follows frame pointers from where the walk missed to the end of the stack, or to another stack: Go's runtime has a
 * stack of its own, and its frames lead to the frames of a goroutine. A chain counts if calls precede all its return
 * addresses except the last.
 */
__attribute__((noinline)) int find_other_stack(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	__u64 low = ring->unwinder.regs.sp - RED_ZONE, fp = ring->unwinder.regs.fp;
	__u64 record[2], last = 0, end;

	ring->other.stack = 0;
	ring->other.own_end = 0;
	ring->other.end = 0;
	for (int i = 0; i < MAX_RECORDS_TO_OTHER_STACK; i++) {
		if ((fp & 7) || read_user(record, sizeof(record), fp))
			return 0;
		int called = called_from(STRIP_PAC(record[1]));
		if (called == TRAMPOLINE) {
			__u64 sp = interrupted_stack(fp);
			if (sp && (sp < low || sp - low >= MAX_PARTS_TO_UNKNOWN * MAX_STACK_BYTES)) {
				if (ring->other.stack)
					return 0;
				ring->other.stack = (sp - RED_ZONE) & ~(STACK_PAGE - 1ULL);
				ring->other.own_end = fp + STACK_PAGE;
				low = sp - RED_ZONE;
			}
		}
		if (fp < low || fp - low >= MAX_PARTS_TO_UNKNOWN * MAX_STACK_BYTES) {
			if (!called || ring->other.stack)
				return 0;
			ring->other.stack = fp & ~(STACK_PAGE - 1ULL);
			ring->other.own_end = (last ? last : low) + STACK_PAGE;
			low = fp;
		}
		if (!record[0] && last) {
			/* A goroutine ends here; a thread may have callers without frame pointers above. */
			end = fp + sizeof(record) + (called ? FRAMES_WITHOUT_POINTER : 0);
			if (ring->other.stack)
				ring->other.end = end;
			else
				ring->other.own_end = end;
		}
		if (!record[0] || !called)
			return 0;
		last = fp;
		fp = record[0];
	}
	return 0;
}

/* Reads the page of the stack at an address to the end of the part and packs it. Returns whether it could be read. */
__attribute__((noinline)) int pack_stack_page(__u32 cpu, __u64 from)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	__u64 *part = (__u64 *)(next_sample(ring) + 1), at = ring->part.packed;
	if (at > MAX_PART_WORDS - STACK_PAGE_WORDS - PAIR_BITS_WORDS)
		return 0;
	__u64 *words = part + at;
	if (bpf_probe_read_user(words + PAIR_BITS_WORDS, STACK_PAGE, (const void *)from))
		return 0;
	if (ring->unwinder.probed)
		restore_returns(cpu, sizeof(struct sample) / 8 + at + PAIR_BITS_WORDS, from, STACK_PAGE);
	pack(part, at, &ring->part.packed);
	return 1;
}

/* Takes one more part of the stack, and returns whether another part follows. */
__attribute__((noinline)) int take_part(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	struct sample *s = next_sample(ring);
	begin_sample(s, bpf_get_current_pid_tgid());
	s->time = ring->part.time;
	s->flags = SAMPLE_PART;
	s->sp = ring->part.next + RED_ZONE;
	ring->part.packed = 0;
	__u64 from = first_stack_page(s), end = ring->other.own_end;
	for (__u32 i = 0; i < STACK_PAGES; i++) {
		if (end && from + i * STACK_PAGE >= end)
			break;
		if (pack_stack_page(cpu, from + i * STACK_PAGE))
			s->stack_pages |= 1U << i;
	}
	s->stack_bytes = (__u32)ring->part.packed * 8;
	set_size(s);
	find_next_part(ring, s);
	ring->next = end_of(ring, s);
	return ring->part.next != 0;
}

#endif
