/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The changes of the kernel to a thread's registers and stack for uprobes, also of other tools. A return probe replaces
 * the return address on the stack by the address of the kernel's trampoline, at the start of the page of copied
 * instructions. It keeps the true address in a list: the innermost call first, with the place of the address on the
 * stack.
 */
#ifndef HEADWATER_UPROBES_H
#define HEADWATER_UPROBES_H

#include "../unwind/unwinder.h"
#include "types.h"

enum {
	MAX_RETURN_PROBES = 64, /* of a thread at a time: the kernel's MAX_URETPROBE_DEPTH */
	/* Distance from a return address to the stack pointer after the return. */
	RETURN_ADDRESS_BYTES = CALL_PUSHES_RETURN_ADDRESS ? 8 : 0,
};

/* Whether the kernel has the list, and its types describe it. */
#define KEEPS_RETURN_ADDRESSES                                                                                   \
	(bpf_core_field_exists(struct uprobe_task, return_instances) &&                                          \
	 bpf_core_field_exists(struct return_instance, stack) &&                                                 \
	 bpf_core_field_exists(struct return_instance, orig_ret_vaddr) &&                                        \
	 bpf_core_field_exists(struct return_instance, next) && bpf_core_field_exists(struct xol_area, vaddr) && \
	 bpf_core_field_exists(struct uprobes_state, xol_area) &&                                                \
	 bpf_core_field_exists(struct mm_struct, uprobes_state))

/*
 * Where the trampoline of a thread's process is. A child of fork has its page when it returns to user mode for the
 * first time, at the address that its thread has noted until then.
 */
ALWAYS_INLINE __u64 trampoline_at(struct xol_area *area, struct uprobe_task *probed)
{
	if (area)
		return BPF_CORE_READ(area, vaddr);
	return bpf_core_field_exists(struct uprobe_task, dup_xol_addr) ? BPF_CORE_READ(probed, dup_xol_addr) : 0;
}

/* The address that functions with a return probe return to; 0 if there is none. */
#define TRAMPOLINE_OF(task)                                                                                   \
	(KEEPS_RETURN_ADDRESSES                                                                               \
		 ? trampoline_at(BPF_CORE_READ(task, mm, uprobes_state.xol_area), BPF_CORE_READ(task, utask)) \
		 : 0)

#endif
