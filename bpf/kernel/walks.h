/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The kernel's side of walks of the current task, and the walks. The including file has the registers of the CPU. */
#ifndef HEADWATER_WALKS_H
#define HEADWATER_WALKS_H

#include "../abi/abi.h"

/* linux/bpf_perf_event.h, without the headers of one architecture. */
struct bpf_perf_event_data {
	sampled_regs regs;
	__u64 sample_period;
	__u64 addr;
};

static struct slab *table_slab(__u32 index);
static int stack_ends_at(__u64 addr);
static __u64 thread_pointer(void);
#define thread_id() ((__u32)bpf_get_current_pid_tgid())
#define read_user(dst, size, addr) bpf_probe_read_user(dst, size, (const void *)(addr))

#include "../language/runtime.h"
#include "../sample/sample.h"
#include "../unwind/walk.h"

ALWAYS_INLINE struct slab *table_slab(__u32 index)
{
	__u32 number = index >> SLAB_SHIFT, zero = 0;
	void *slab = bpf_map_lookup_elem(&slabs, &number);

	return slab ? bpf_map_lookup_elem(slab, &zero) : 0;
}

#endif
