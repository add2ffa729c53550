/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Walks a chain: the frames that an interpreter keeps of a thread, from the leaf on. The layout of the data is itself
 * data (struct interpreter), from user space, which knows the language. ebpf/language/chain has the same steps in Go.
 *
 * Besides the functions of unwinder.h, the including file defines
 *   thread_pointer()   of the current thread
 *   thread_id()
 */
#ifndef HEADWATER_CHAIN_H
#define HEADWATER_CHAIN_H

#include "layout.h"

struct chain {
	__u64 at;   /* how far the path has come; then the frame */
	__u64 bias; /* of the interpreter's file */
	__u64 interpreter; /* index in `interpreters`; 0: none */
	__u64 first_state; /* 1: PATH_RUNNING has not led to a state of the thread */
	struct blocks blocks; /* of the frame */
};

/* One step of the path to the first frame. */
ALWAYS_INLINE int path_step(struct chain *c, const struct path_step *s)
{
	__u64 owner = 0;
	__u32 index;

	switch (s->op) {
	case PATH_GLOBAL:
		c->at = c->bias + s->offset;
		return CHAIN_NONE;
	case PATH_THREAD_POINTER:
		c->at = thread_pointer() + s->offset;
		return CHAIN_NONE;
	case PATH_ABSOLUTE:
		c->at = s->offset;
		return CHAIN_NONE;
	case PATH_ADD:
		c->at += s->offset;
		return CHAIN_NONE;
	case PATH_INDEX:
		if (read_user(&index, sizeof(index), c->bias + s->offset) || index >= s->limit)
			return CHAIN_NO_START;
		c->at += (__u64)index * s->scale;
		return CHAIN_NONE;
	case PATH_RUNNING:
		if (read_user(&c->at, sizeof(c->at), c->bias + s->offset))
			return CHAIN_NO_START;
		c->first_state = !c->at || read_user(&owner, sizeof(owner), c->at + s->scale) || owner != thread_pointer();
		return CHAIN_NONE;
	case PATH_LOAD:
		if (read_user(&c->at, sizeof(c->at), c->at + s->offset))
			return CHAIN_NO_START;
		return c->at ? CHAIN_NONE : CHAIN_NO_THREAD;
	}
	return CHAIN_NO_START;
}

/* Steps `from` to before `to` of the path. */
ALWAYS_INLINE int path_steps(struct chain *c, const struct interpreter *in, __u32 from, __u32 to)
{
	for (__u32 i = 0; i < MAX_STEPS; i++) {
		if (i < from || i >= to)
			continue;
		int end = path_step(c, &in->steps[i]);
		if (end)
			return end;
		if (in->steps[i].op == PATH_RUNNING && !c->first_state)
			from = i + 1 + in->steps[i].limit;
	}
	return CHAIN_NONE;
}

/* How the chain of the state that the path has led to ends. */
ALWAYS_INLINE int end_of_state(const struct chain *c, int end)
{
	return end == CHAIN_WHOLE && c->first_state ? CHAIN_FIRST_STATE : end;
}

/* Searches the list that the path has led to for the node of this thread. */
ALWAYS_INLINE int find_node(struct chain *c, const struct interpreter *in)
{
	__u64 own = in->owner == OWNER_TID ? thread_id() : thread_pointer() + in->node_add;
	__u64 at = c->at, word;

	for (int i = 0; i < MAX_NODES; i++) {
		word = 0;
		if (read_user(&word, in->owner == OWNER_TID ? 4 : 8, at + in->node_word))
			return CHAIN_NO_START;
		if (word == own) {
			c->at = at;
			return CHAIN_NONE;
		}
		if (read_user(&at, sizeof(at), at + in->node_next))
			return CHAIN_NO_START;
		if (!at)
			return CHAIN_THREAD_NOT_FOUND;
	}
	return CHAIN_THREAD_NOT_FOUND;
}

/* Reads the present frame of the chain. Returns CHAIN_NONE if there is one. */
ALWAYS_INLINE int read_frame(struct chain *c, const struct interpreter *in)
{
	read_blocks(&c->blocks, &in->frame, c->at);
	if (!(c->blocks.read & 1))
		return CHAIN_UNREADABLE;
	__u64 stop = in->stop;
	if (stop < MAX_LAYOUT_WORDS && (c->blocks.frame[stop] & in->stop_mask) == in->stop_value)
		return CHAIN_WHOLE;
	return CHAIN_NONE;
}

/* Goes to the caller of the frame that was read. */
ALWAYS_INLINE int next_frame(struct chain *c, const struct interpreter *in)
{
	__u32 next = in->next;

	if (next >= MAX_LAYOUT_WORDS) {
		c->at += in->next_offset;
		return CHAIN_NONE;
	}
	__u64 at = c->blocks.frame[next] & in->next_mask;

	if (!at)
		return CHAIN_WHOLE;
	c->at = at + in->next_offset;
	return CHAIN_NONE;
}

#endif
