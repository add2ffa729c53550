// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Walks at probes, and leaves out the hits of ignored processes. It is loaded only when there are probes. The programs
 * run before the kernel records the hit, which it does if they return 1.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "abi/abi.h"
#include "unwind/regs.h"
#include "sample/hit.h"

char _license[] SEC("license") = "GPL";

/* Whether the kernel records the current hit: hits of ignored processes would take the room of other hits. */
ALWAYS_INLINE int is_wanted(void)
{
	__u32 pid = (__u32)(bpf_get_current_pid_tgid() >> 32);
	struct process *p = bpf_map_lookup_elem(&processes, &pid);

	return !(p && p->flags & PROCESS_IGNORED);
}

enum { HIT_PROCESSES = 4096 };

/* The number of hits by process, of probes whose hits are all walked. User space compares it with the hits it reads. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, HIT_PROCESSES);
	__type(key, __u32);
	__type(value, __u64);
} hit_counts SEC(".maps");

ALWAYS_INLINE void count_hit(void)
{
	__u32 pid = (__u32)(bpf_get_current_pid_tgid() >> 32);
	__u64 *count = bpf_map_lookup_elem(&hit_counts, &pid), none = 0;

	if (!pid)
		return;
	if (!count) {
		bpf_map_update_elem(&hit_counts, &pid, &none, BPF_NOEXIST); /* fails if another CPU was faster */
		count = bpf_map_lookup_elem(&hit_counts, &pid);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
}

/* uprobes and kprobes, also where functions return. */
SEC("kprobe")
int hit_probe(sampled_regs *ctx)
{
	if (!is_wanted())
		return 0;
	count_hit();
	take_walk(ctx, OF_CPU, 0);
	return 1;
}

/* As hit_probe, without a walk: for the events of all CPUs but one, as each of them runs its program at each hit. */
SEC("kprobe")
int pass_probe(void *ctx)
{
	(void)ctx;
	return is_wanted();
}

SEC("perf_event")
int pass_event(void *ctx)
{
	(void)ctx;
	return is_wanted();
}

/* It returns 1 for all hits: with 0 the kernel would record the hit for no other tool either. */
SEC("tracepoint")
int hit_tracepoint(void *ctx)
{
	(void)ctx;
	if (is_wanted())
		count_hit();
	take_walk(0, AT_ENTRY, 0);
	return 1;
}
