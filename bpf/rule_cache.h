/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Remembers the rules of addresses that walks of this CPU have met. What a frame costs is memory that has left the CPU's
 * caches since the last sample: a mapping, a directory entry and the probes of a search among rows are five lines or so,
 * and this is one.
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
	__u64 row; /* with the lower half of the stamp in the place of its offset */
};
_Static_assert(sizeof(struct cached_rule) == 32, "two are a line");

/*
 * Sets which rules are valid now: those of these mappings, as no other process has the same generation; of a time when
 * rows were what they are; and of the last seconds, so that pages of rows in use still get their mark. Nothing is
 * remembered of processes that make code: names of it are read when a walk misses its rows.
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

/* Where the rule of an address is, if it is remembered. Those of the same code are near each other. */
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
