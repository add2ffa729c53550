/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Remembers the rules of addresses that walks of this CPU have met. The cost of a frame is memory that has left the
 * CPU's caches since the last sample: a mapping, a directory entry and the probes of a search among rows are some five
 * cache lines, and an entry here is one.
 */
#ifndef HEADWATER_RULE_CACHE_H
#define HEADWATER_RULE_CACHE_H

#include "unwinder.h"

enum { CACHED_RULES = 1024 };

struct cached_rule {
	__u64 key; /* the address in the process, as it is looked up, and the upper half of the stamp */
	__u64 bias; /* of its mapping */
	__u32 exe;
	__u32 generation; /* of the process's mappings */
	__u64 row; /* with the lower half of the stamp in place of its offset */
};
_Static_assert(sizeof(struct cached_rule) == 32, "two are a line");

/*
 * Sets which rules are valid now: rules of these mappings, as no other process has the same generation; from a time
 * with the present rows; and of the last seconds, so that pages of rows in use still get their mark. Rules of processes
 * that make code are not remembered: the names of such code are read when a walk misses its rows.
 */
ALWAYS_INLINE void begin_cache(struct unwinder *u, const struct process *p, __u32 row_changes, __u64 time)
{
	u->cached_generation = p->flags & PROCESS_MAKES_CODE || !row_changes ? 0 : p->generation;
	u->cached_stamp = row_changes + (__u32)(time >> 31); /* both grow */
}

ALWAYS_INLINE __u64 cache_key(const struct unwinder *u, __u64 addr)
{
	return addr ^ (u->cached_stamp & 0xffff0000) << 32; /* where addresses of processes have zeros */
}

/* The place of an address's rule, if it is remembered. Rules of the same code are near each other. */
ALWAYS_INLINE struct cached_rule *cache_place(const struct unwinder *u, struct cached_rule *rules, __u64 addr)
{
	__u64 region = ((addr >> 12) ^ u->cached_generation << 40) * GOLDEN;
	__u64 at = (addr >> 4) + (region >> 32);

	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	return &rules[at & (CACHED_RULES - 1)];
}

ALWAYS_INLINE int is_cached(const struct unwinder *u, const struct cached_rule *c, __u64 addr)
{
	return u->cached_generation && c->key == cache_key(u, addr) && c->generation == u->cached_generation &&
	       (__u16)c->row == (__u16)u->cached_stamp;
}

/* Notes the row of an address of the current mapping. */
ALWAYS_INLINE void cache(const struct unwinder *u, struct cached_rule *c, __u64 addr, __u64 row)
{
	if (!u->cached_generation)
		return;
	c->key = cache_key(u, addr);
	c->bias = u->mapping.bias;
	c->exe = u->mapping.exe;
	c->generation = (__u32)u->cached_generation;
	c->row = (row & ~0xffffULL) | (__u16)u->cached_stamp;
}

#endif
