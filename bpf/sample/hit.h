/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Walks the stack of a thread that has hit a probe, and takes the frames that its language runtime keeps, which will
 * have changed when user space reads the hit. The walk is a sample without a copy of the stack, in a ring of the
 * including object.
 */
#ifndef HEADWATER_HIT_H
#define HEADWATER_HIT_H

#include "../kernel/walks.h"

/*
 * The thread that is walking on the CPU; 0 if none. Programs of probes may be preempted, and a thread that comes then
 * takes no walk. A task preempted right after this check may still walk; the walk that it disturbs is not handed over.
 */
ALWAYS_INLINE __u64 owner_of(const struct sample_ring *ring)
{
	return *(const volatile __u64 *)&ring->owner;
}

ALWAYS_INLINE void set_owner(struct sample_ring *ring, __u64 id)
{
	*(volatile __u64 *)&ring->owner = id;
}

/* The source of the registers of a hit. */
enum hit_registers {
	OF_USER,
	OF_CPU, /* perhaps in the kernel */
	AT_ENTRY, /* the entry to the kernel: regs is not used */
};

ALWAYS_INLINE int begin_hit(sampled_regs *regs, enum hit_registers what, struct unwinder *u, struct sample *s)
{
	switch (what) {
	case OF_USER:
		return begin_user_walk(regs, u, s);
	case OF_CPU:
		return find_user_registers(regs, u, s);
	default:
		return find_entry_registers(u);
	}
}

/* Whether return probes have replaced return addresses on the current thread's stack, and so in a copy of the stack. */
ALWAYS_INLINE int has_return_probes(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return bpf_core_field_exists(task->utask) && KEEPS_RETURN_ADDRESSES &&
	       BPF_CORE_READ(task, utask, return_instances);
}

/*
 * Walks, unless the process is known to have no language runtime and the thread has no return probe: then a copy of the
 * stack is enough for user space. The sample gets `time`, or if that is 0 the time at the end of the walk: user space
 * looks for the sample between this hit and the hit before.
 */
ALWAYS_INLINE void take_walk(sampled_regs *regs, enum hit_registers what, __u64 time)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = (__u32)(id >> 32), cpu = bpf_get_smp_processor_id();
	struct process *p = bpf_map_lookup_elem(&processes, &pid);
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);
	int replaced = has_return_probes();

	if (!pid || (p && ((!p->interpreter && !replaced) || p->flags & PROCESS_IGNORED)))
		return;
	if (!ring || owner_of(ring) || !has_room(ring, ring->next))
		return;
	set_owner(ring, id);
	struct unwinder *u = &ring->unwinder;
	struct sample *s = next_sample(ring);
	begin_sample(s, id);
	int outcome = begin_hit(regs, what, u, s);
	want_slots(ring, p);
	if (!outcome)
		outcome = walk(u, s, cpu, p);
	take_runtime(ring, p, cpu, outcome);
	end_walk(u, s, outcome);
	set_size(s);
	s->time = time ? time : bpf_ktime_get_ns();
	if ((ring->chain.interpreter || replaced) && owner_of(ring) == id) {
		ring->next = end_of(ring, s);
		publish_head(ring, ring->next);
	}
	set_owner(ring, 0);
}

#endif
