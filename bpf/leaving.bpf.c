// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Copies the stacks of some threads when they leave their CPU, for some milliseconds before a pass over threads. It is
 * loaded only where such passes are made. A wait may be over before user space can read its stack.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "sample/copies.h"
#include "kernel/entry.h"
#include "unwind/regs.h"

char _license[] SEC("license") = "GPL";

struct stack_pages {
	__u8 bytes[COPIED_PAGES][STACK_PAGE];
};

/* By room. User space makes room for as many threads as it wants to watch. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_pages);
} stack_copies SEC(".maps");

#define BARRIER asm volatile("" ::: "memory")

/* The address of the first page of the current thread's stack that is in use; 0 if it has none. */
ALWAYS_INLINE __u64 first_page(struct task_struct *task)
{
	sampled_regs regs;

	if ((BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
		return 0;
	const char *at = ENTRY_REGISTERS(task, bpf_get_current_task_btf());
	if (bpf_probe_read_kernel(&regs, sizeof(regs), at) || NEVER_IN_USER_MODE(&regs) || !REGS_IN_USER_MODE(&regs))
		return 0;
	return (STACK_POINTER(&regs) - RED_ZONE) & ~(STACK_PAGE - 1ULL);
}

/* Runs where the current thread leaves its CPU, with interrupts off. Its switch is counted already. */
SEC("raw_tp/sched_switch")
int copy_leaving(void *ctx __attribute__((unused)))
{
	__u32 watch = current_watch(), tid = (__u32)bpf_get_current_pid_tgid();

	if (!watch)
		return 0;
	__u32 *room = bpf_map_lookup_elem(&rooms, &tid);
	if (!room)
		return 0;
	__u32 at = *room;
	struct copied_stack *copy = bpf_map_lookup_elem(&copied_stacks, &at);
	struct stack_pages *pages = bpf_map_lookup_elem(&stack_copies, &at);
	if (!copy || !pages || copy->tid != tid || copy->watch == watch)
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	copy->switches = 0;
	BARRIER;
	__u64 from = first_page(task);
	if (!from)
		return 0;
	copy->started = BPF_CORE_READ(task, start_time);
	copy->from = from;
	copy->pages = 0;
	for (__u32 i = 0; i < COPIED_PAGES; i++) {
		if (!bpf_probe_read_user(pages->bytes[i], STACK_PAGE, (const void *)(from + i * STACK_PAGE)))
			copy->pages |= 1U << i;
	}
	BARRIER;
	copy->switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	return 0;
}
