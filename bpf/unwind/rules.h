/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Finds the rule of a pc: its mapping, the page of rows, the row. */
#ifndef HEADWATER_RULES_H
#define HEADWATER_RULES_H

#include "unwinder.h"

/*
 * The word index of the last of `count` entries of `stride` words from word `start` whose key is at most `key`; needs
 * count > 0. Returns entry 0 if all keys are above. The key of an entry is its first word, cut to `mask`. Branchless:
 * one verifier path, and no mispredictions.
 */
ALWAYS_INLINE __u32 search(const __u64 *words, __u32 start, __u32 count, __u32 stride, __u64 mask, __u64 key)
{
	__u32 base = 0;

	for (int i = 0; i < SEARCH_STEPS; i++) {
		if (count <= 1)
			break;
		__u32 half = count >> 1;
		__u64 at = words[(start + (base + half) * stride) & SLAB_MASK] & mask;
		/* keys are below 2^63, so the sign says whether at <= key */
		__u64 below = (__u64)((__s64)(at - key - 1) >> 63);

		base += half & (__u32)below;
		count -= half;
	}
	return start + base * stride;
}

/* Finds the mapping of addr and keeps it in u->mapping. */
ALWAYS_INLINE int find_mapping(struct unwinder *u, __u64 addr)
{
	if (addr >= u->mapping.start && addr < u->mapping.end)
		return OUTCOME_UNSET;
	if (!u->mapping_count)
		return OUTCOME_PROCESS_UNKNOWN;

	const struct slab *slab = table_slab(u->mappings);
	if (!slab)
		return OUTCOME_NO_MAPPING;
	__u32 at = search(slab->words, u->mappings, u->mapping_count, MAPPING_WORDS, ~0ULL, addr);

	__u64 start = slab->words[at & SLAB_MASK];
	__u64 end = slab->words[(at + 1) & SLAB_MASK];
	if (addr < start || addr >= end)
		return OUTCOME_NO_MAPPING;
	__u64 ids = slab->words[(at + 3) & SLAB_MASK];

	u->mapping.start = start;
	u->mapping.end = end;
	u->mapping.bias = slab->words[(at + 2) & SLAB_MASK];
	u->mapping.exe = (__u32)ids;
	u->mapping.directory = (__u32)(ids >> 32);
	return OUTCOME_UNSET;
}

/* Sets the rule from a row. */
ALWAYS_INLINE void widen(__u64 row, struct wide_rule *rule)
{
	rule->cfa = (__u8)(row >> 16);
	rule->reg = rule->reg2 = 0;
	rule->ra_off = 0;
	rule->rules = (__u8)(row >> 24);
	rule->cfa_off = (__s16)(row >> 32);
	rule->fp_off = (__s16)(row >> 48);
}

/* Finds the rule at vaddr of the current mapping, and its row if the row has all of it; else *row is 0. */
ALWAYS_INLINE int find_rule(struct unwinder *u, __u64 vaddr, struct wide_rule *rule, __u64 *row)
{
	__u32 directory = u->mapping.directory;
	__u32 entry = (directory + (__u32)(vaddr >> ((directory >> WORD_BITS) + MIN_ROW_PAGE_SHIFT - 1))) & WORD_MASK;
	struct slab *slab = table_slab(entry);

	*row = 0;
	if (!slab)
		return OUTCOME_PAGE_MISSING;
	struct row_page *page = (struct row_page *)&slab->words[entry & SLAB_MASK];
	struct row_page p = *(volatile struct row_page *)page;

	if (p.state != ROW_PAGE_RESIDENT)
		return OUTCOME_PAGE_MISSING;
	if (p.mark != ROW_PAGE_ACCESSED)
		page->mark = ROW_PAGE_ACCESSED;
	if (!p.count) {
		rule->cfa = CFA_NONE;
		return OUTCOME_UNSET;
	}

	const struct slab *rows = table_slab(p.rows);
	if (!rows)
		return OUTCOME_PAGE_MISSING;
	__u32 at = search(rows->words, p.rows, p.count, 1, 0xffff, vaddr & 0xffff);
	*row = rows->words[at & SLAB_MASK];
	widen(*row, rule);
	if (rule->cfa == CFA_WIDE) {
		__u32 wide = p.rows + p.count + 2 * (__u32)(__u16)rule->cfa_off;
		__u64 lo = rows->words[wide & SLAB_MASK];
		__u64 hi = rows->words[(wide + 1) & SLAB_MASK];

		*row = 0;
		rule->cfa = (__u8)lo;
		rule->reg = (__u8)(lo >> 8);
		rule->rules = (__u8)(lo >> 16);
		rule->reg2 = (__u8)(lo >> 24);
		rule->cfa_off = (__s32)(lo >> 32);
		rule->fp_off = (__s32)hi;
		rule->ra_off = (__s32)(hi >> 32);
	}
	return OUTCOME_UNSET;
}

#endif
