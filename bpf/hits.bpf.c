// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Walks at probes. It is loaded only when there are some. The programs run before the kernel records the hit, which it
 * does if they return 1.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "abi.h"
#include "regs.h"
#include "hit.h"

char _license[] SEC("license") = "GPL";

/* uprobes and kprobes, also where functions return. */
SEC("kprobe")
int hit_probe(sampled_regs *ctx)
{
	take_walk(ctx, OF_CPU, 0);
	return 1;
}

SEC("tracepoint")
int hit_tracepoint(void *ctx)
{
	(void)ctx;
	take_walk(0, AT_ENTRY, 0);
	return 1;
}
