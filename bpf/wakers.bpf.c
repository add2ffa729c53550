// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Records the tasks that end the waits of marked threads. It is loaded only when needed. Only the first task that ends
 * a wait is recorded, so there are no more records than marks. A thread without a mark costs a lookup in the map of
 * marks.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "unwind/unwinder.h"
#include "kernel/types.h"
#include "sample/marks.h"
#include "abi/wakers.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WAKERS_BYTES);
} wakers SEC(".maps");

/* The record that is being made on a CPU. Interrupts are off during that time. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waker);
} waker_record SEC(".maps");

/* Records for which the buffer had no room. */
volatile __u64 wakers_lost = 0;

const volatile struct waker_enums waker_enums = {};

/* The mark of a thread if it is still in the wait of the mark, and no task has ended the wait yet. */
ALWAYS_INLINE struct thread_mark *mark_of_wait(struct task_struct *task, __u32 tid)
{
	struct thread_mark *mark = bpf_map_lookup_elem(&marks, &tid);

	if (!mark || mark->woken || mark->started != BPF_CORE_READ(task, start_time))
		return NULL;
	/* It has not left a CPU since, so it has not run since. */
	return mark->switches == BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw) ? mark : NULL;
}

ALWAYS_INLINE void take_current(struct waker *w)
{
	struct task_struct *by = (struct task_struct *)bpf_get_current_task();
	__u64 ids = bpf_get_current_pid_tgid();

	w->by_pid = ids >> 32;
	w->by_tid = (__u32)ids;
	w->by_kernel = !w->by_tid || (BPF_CORE_READ(by, flags) & PF_KTHREAD);
	BPF_CORE_READ_INTO(&w->by_comm, by, comm);
	BPF_CORE_READ_INTO(&w->by_process, by, group_leader, comm);
}

/* Runs where a thread is about to be woken, with interrupts off. */
SEC("raw_tp/sched_waking")
int note_waker(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *woken = (struct task_struct *)ctx->args[0];
	__u32 zero = 0, tid = BPF_CORE_READ(woken, pid);
	struct thread_mark *mark = mark_of_wait(woken, tid);

	if (!mark)
		return 0;
	struct waker *w = bpf_map_lookup_elem(&waker_record, &zero);
	if (!w)
		return 0;
	mark->woken = 1;
	w->tid = tid;
	w->started = mark->started;
	w->switches = mark->switches;
	take_current(w);
	long bytes = bpf_get_stack(ctx, w->kernel, sizeof(w->kernel), 0);
	if (bytes < 0 || bytes > (long)sizeof(w->kernel))
		bytes = 0;
	w->kernel_frames = (__u32)bytes / 8;
	/* The reader of threads reads it later, so no wakeup is needed. */
	if (bpf_ringbuf_output(&wakers, w, __builtin_offsetof(struct waker, kernel) + bytes, BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&wakers_lost, 1);
	return 0;
}
