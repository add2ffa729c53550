/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The ring of samples of a CPU: where a sample is made, how large it is, and how user space gets it. */
#ifndef HEADWATER_RING_H
#define HEADWATER_RING_H

#include "maps.h"

/*
 * Where the sample that is being taken starts. Masked at each use, since the verifier forgets the bounds of a value in
 * a map.
 */
ALWAYS_INLINE struct sample *next_sample(struct sample_ring *ring)
{
	return (struct sample *)&ring->words[ring->next & (RING_WORDS - 1)];
}

/* The words of a sample after its head, from `at` on. */
ALWAYS_INLINE __u64 *body(struct sample *s, __u32 at)
{
	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	return (__u64 *)(s + 1) + (at & (MAX_FRAME_WORDS - 1));
}

ALWAYS_INLINE __u64 tail_of(const struct sample_ring *ring)
{
	return *(volatile __u64 *)&ring->tail;
}

/* The most words of a sample before the copy of its stack, which checks for room itself. */
enum { FRAME_ROOM = sizeof(struct sample) / 8 + MAX_FRAME_WORDS };

/*
 * Whether the largest sample without a copy fits at a word, and `head` will not meet `tail`, which would mean that the
 * ring is empty.
 */
ALWAYS_INLINE int has_room(const struct sample_ring *ring, __u64 at)
{
	__u64 tail = tail_of(ring);

	if (tail > at)
		return tail - at > FRAME_ROOM;
	return tail || at + FRAME_ROOM < RING_WORDS;
}

/*
 * Whether a copy of a stack, of `words` words, may be put at a word. It must leave room for later samples: a copy of 64
 * KiB takes as much as some thirty to a hundred samples.
 */
ALWAYS_INLINE int has_room_for_copy(const struct sample_ring *ring, __u64 at, __u64 words)
{
	__u64 tail = tail_of(ring), room = tail > at ? tail - at : tail + RING_WORDS - at;

	return room > words + RING_RESERVE;
}

/* Where the sample after this one starts. */
ALWAYS_INLINE __u64 end_of(const struct sample_ring *ring, const struct sample *s)
{
	__u64 end = ring->next + s->size;

	return end < RING_WORDS ? end : 0;
}

ALWAYS_INLINE void begin_sample(struct sample *s, __u64 id)
{
	s->kind = KIND_CPU;
	s->period = 0;
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
	s->last_frames = 0;
	s->exec = 0;
	s->interpreter = 0;
	s->runtime_words = 0;
	s->chain_end = CHAIN_NONE;
	s->codes = 0;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
}

/* Words of the body before the copy of the stack. */
ALWAYS_INLINE __u32 words_before_stack(const struct sample *s)
{
	return s->kernel_frames + s->user_frames * FRAME_WORDS + s->runtime_words +
	       (s->flags & (SAMPLE_REGISTERS | SAMPLE_RBX) ? GENERAL_REGISTERS : 0);
}

ALWAYS_INLINE void set_size(struct sample *s)
{
	s->size = (__u16)((sizeof(*s) + s->stack_bytes) / 8 + words_before_stack(s));
}

/* Words from `tail` to `head`. */
ALWAYS_INLINE __u64 words_used(__u64 head, __u64 tail)
{
	return head >= tail ? head - tail : head + RING_WORDS - tail;
}

/* Makes the words written before visible to a reader of the new head. */
ALWAYS_INLINE void publish_head(struct sample_ring *ring, __u64 head)
{
#if defined(__TARGET_ARCH_arm64)
	(void)__sync_lock_test_and_set(&ring->head, head);
	asm volatile("" ::: "memory");
#else
	asm volatile("" ::: "memory"); /* x86 does not reorder stores */
	*(volatile __u64 *)&ring->head = head;
#endif
}

/*
 * Hands over the samples that were written. Waking user space costs more than taking a sample, so it reads the rings
 * from time to time. But it should complete a stack whose walk missed a table at once, and it must not come too late.
 */
ALWAYS_INLINE void emit_sample(struct sample_ring *ring, int wake)
{
	__u64 tail = tail_of(ring), head = ring->head, next = ring->next;
	int much = words_used(next, tail) > RING_WAKEUP && words_used(head, tail) <= RING_WAKEUP;

	publish_head(ring, next);
	if (wake || much)
		bpf_ringbuf_output(&wakeups, &head, sizeof(head), BPF_RB_FORCE_WAKEUP);
}

#endif
