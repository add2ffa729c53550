/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The registers with which a task entered the kernel. */
#ifndef HEADWATER_ENTRY_H
#define HEADWATER_ENTRY_H

#include "types.h"

enum {
	KERNEL_STACK_SIZE = 16384, /* without KASAN; only used where bpf_task_pt_regs is missing */
};

/* Before 5.15 they are at the top of the task's stack. `trusted` is the task for the verifier, in a branch for 5.15. */
#define ENTRY_REGISTERS(task, trusted)                                             \
	(bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)       \
		 ? (const char *)bpf_task_pt_regs((struct task_struct *)(trusted)) \
		 : (const char *)BPF_CORE_READ(task, stack) + KERNEL_STACK_SIZE -  \
			   bpf_core_type_size(struct pt_regs___kernel))

#endif
