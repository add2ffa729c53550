/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The fields of the kernel's types that the programs read. Each access is relocated when the program is loaded. */
#ifndef HEADWATER_TYPES_H
#define HEADWATER_TYPES_H

#include <linux/types.h>

struct return_instance {
	unsigned long stack; /* the stack pointer at the entry of the function */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __attribute__((preserve_access_index));
struct uprobe_task {
	struct return_instance *return_instances;
	unsigned long vaddr;
	unsigned long xol_vaddr;
	unsigned long dup_xol_addr;
} __attribute__((preserve_access_index));
struct xol_area {
	unsigned long vaddr;
} __attribute__((preserve_access_index));
struct uprobes_state {
	struct xol_area *xol_area;
} __attribute__((preserve_access_index));

struct file;
struct mm_struct {
	unsigned long start_stack;
	unsigned long start_code;
	struct file *exe_file;
	struct uprobes_state uprobes_state;
} __attribute__((preserve_access_index));

#if defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} __attribute__((preserve_access_index));
struct pt_regs___kernel {
	int syscallno;
} __attribute__((preserve_access_index));
#define THREAD_POINTER thread.uw.tp_value /* of the user space of a task */
#else
struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));
struct pt_regs___kernel {
	unsigned long orig_ax;
} __attribute__((preserve_access_index));
#define THREAD_POINTER thread.fsbase
#endif

struct sched_entity {
	__u64 exec_start;
} __attribute__((preserve_access_index));
struct sched_info {
	unsigned long long last_arrival; /* on a CPU */
	unsigned long long run_delay; /* ns that it was queued for a CPU, in its life */
	unsigned long long last_queued; /* for a CPU; 0 if it is not queued */
} __attribute__((preserve_access_index));
struct thread_info {
	__u32 cpu;
} __attribute__((preserve_access_index));
struct task_struct {
	void *stack;
	unsigned int flags;
	unsigned int __state; /* from 5.14 on */
	unsigned frozen : 1; /* if its cgroup is frozen, of version 2, the thread counts as frozen with it */
	unsigned in_execve : 1;
	int exit_state;
	int pid;
	int tgid;
	int on_cpu;
	__u64 start_time;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long long self_exec_id;
	char comm[16]; /* TASK_COMM_LEN */
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct uprobe_task *utask;
	struct thread_struct thread;
	struct sched_entity se;
	struct sched_info sched_info;
	struct thread_info thread_info;
} __attribute__((preserve_access_index));
struct task_struct___old {
	long state;
	unsigned int cpu; /* until 5.15, and where thread_info has it */
} __attribute__((preserve_access_index));

enum { PF_KTHREAD = 0x00200000 };

#endif
