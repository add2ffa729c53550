/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Leads walks and copies of the current task's stack through return addresses that the kernel has replaced. */
#ifndef HEADWATER_TRAMPOLINE_H
#define HEADWATER_TRAMPOLINE_H

#include "code.h"
#include "../sample/ring.h"
#include "../kernel/task.h"

enum {
	TRAMPOLINE_ALIGNMENT = 4096, /* the trampoline is at the start of a page */
	TRAMPOLINE_BYTES = 17,
	AFTER_SYSTEM_CALL = 13, /* of its code on x86, since Linux 6.11 */
};

#if defined(__TARGET_ARCH_arm64)
/* Bytes that the trampoline has put on the stack at an offset of its code; negative: not known. */
ALWAYS_INLINE __s64 pushed_in_trampoline(__u64 trampoline, __u64 off)
{
	(void)trampoline;
	return off ? -1 : 0; /* it is a breakpoint */
}
#else
/*
 * Bytes that the trampoline has put on the stack at an offset of its code; negative: not known. The code is a
 * breakpoint, or since Linux 6.11: push rax, rcx and r11; a system call; pop r11 and rcx; ret.
 */
ALWAYS_INLINE __s64 pushed_in_trampoline(__u64 trampoline, __u64 off)
{
	__u64 code[2];

	if (!off)
		return 0; /* perhaps to have the page mapped by a fault */
	if (read_user(code, sizeof(code), trampoline))
		return -1;
	if (code[0] != 0x4fc0c74853415150 || code[1] != 0x595b41050f000001)
		return -1;
	switch (off) {
	case 1:
	case 16:
		return 8;
	case 2:
	case 15:
		return 16;
	case 4:
	case 11:
	case AFTER_SYSTEM_CALL:
		return 24;
	}
	return -1;
}
#endif

/*
 * The address that the trampoline has replaced at a place on the stack; 0 if none. Ask for a callee's place before its
 * caller's.
 */
ALWAYS_INLINE __u64 replaced_address(struct unwinder *u, __u64 place)
{
	struct return_instance *call = (struct return_instance *)u->returns;

	for (int i = 0; i < MAX_RETURN_PROBES && call; i++) {
		if (BPF_CORE_READ(call, stack) == place) {
			u->returns = (__u64)call;
			return STRIP_PAC(BPF_CORE_READ(call, orig_ret_vaddr));
		}
		call = BPF_CORE_READ(call, next);
	}
	return 0;
}

/*
 * The thread is in the trampoline, or was interrupted there: a function has returned. The kernel forgets the true
 * address while it handles the return, and puts it where `ret` takes it from. in_user says that the CPU is in user
 * mode, so the kernel has done this.
 */
ALWAYS_INLINE void finish_return(struct unwinder *u, __u64 trampoline, int in_user)
{
	__u64 off = u->regs.pc - trampoline, sp = u->regs.sp, address;
	__s64 pushed = pushed_in_trampoline(trampoline, off);

	if (pushed < 0)
		return;
	address = replaced_address(u, sp + pushed - RETURN_ADDRESS_BYTES);
	if (!address && off == AFTER_SYSTEM_CALL) { /* the kernel takes the registers off while it handles the return */
		address = replaced_address(u, sp - RETURN_ADDRESS_BYTES);
		if (address)
			pushed = 0;
	}
	if (!address && off >= AFTER_SYSTEM_CALL) {
		if (read_user(&address, sizeof(address), sp + pushed - RETURN_ADDRESS_BYTES))
			return;
		if (off == AFTER_SYSTEM_CALL && !in_user && address == u->regs.general[REG_RAX])
			return; /* not yet: this is the pushed rax */
	}
	if (!address)
		return;
	u->regs.pc = address;
	u->regs.sp = sp + pushed;
#if !defined(__TARGET_ARCH_arm64)
	u->regs.general[REG_RSP] = u->regs.sp;
#endif
}

/* Whether a pc may be in the trampoline: seldom true for other code. */
ALWAYS_INLINE int may_be_in_trampoline(const struct unwinder *u)
{
	return u->probed && (u->regs.pc & (TRAMPOLINE_ALIGNMENT - 1)) < (u->exact ? TRAMPOLINE_BYTES : 1);
}

/*
 * If the registers are of the trampoline, makes them the registers of the caller of the function that returns to it. An
 * address that is not in the kernel's list stays as it is.
 */
__attribute__((noinline)) int leave_trampoline(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (!ring)
		return 0;
	struct unwinder *u = &ring->unwinder;
	__u64 trampoline = TRAMPOLINE_OF(task);
	if (!trampoline || u->regs.pc - trampoline >= TRAMPOLINE_BYTES)
		return 0;
	if (u->exact) {
		finish_return(u, trampoline, next_sample(ring)->flags & SAMPLE_IN_USER);
		return 0;
	}
	__u64 address = replaced_address(u, u->regs.sp - RETURN_ADDRESS_BYTES);
	if (address)
		u->regs.pc = address;
	return 0;
}

/* Whether an address on the stack is the trampoline's. */
ALWAYS_INLINE int is_replaced(__u64 address)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return address && !(address & (TRAMPOLINE_ALIGNMENT - 1)) && address == TRAMPOLINE_OF(task);
}

/* The results of called_from. */
enum { NO_CALL = 0, CALL = 1, TRAMPOLINE = 2 };

/*
 * Whether a call precedes an address. Not inlined, so that the verifier follows its branches only once, and not once
 * for each branch of its callers.
 */
__attribute__((noinline)) int called_from(__u64 addr)
{
	if (follows_call(addr) || is_replaced(addr))
		return CALL;
	return is_trampoline(addr) ? TRAMPOLINE : NO_CALL;
}

/*
 * Puts the true return addresses into a copy of the stack at `from`, which is `at` words from the start of the sample
 * that is being made. Where calls push no address, the places of return addresses are not known.
 */
__attribute__((noinline)) int restore_returns(__u32 cpu, __u64 at, __u64 from, __u64 bytes)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (!ring || !CALL_PUSHES_RETURN_ADDRESS || !KEEPS_RETURN_ADDRESSES)
		return 0;
	__u64 *words = (__u64 *)next_sample(ring);
	__u64 trampoline = TRAMPOLINE_OF(task);
	struct uprobe_task *probed = (struct uprobe_task *)ring->unwinder.probed;
	struct return_instance *call = BPF_CORE_READ(probed, return_instances);

	for (int i = 0; i < MAX_RETURN_PROBES && call; i++) {
		__u64 place = BPF_CORE_READ(call, stack) - from, word = at + place / 8;

		if (place < bytes && word < SAMPLE_WORDS) {
			__u32 *half = (__u32 *)&words[word];

			if (!(place & 7) && words[word] == trampoline)
				words[word] = BPF_CORE_READ(call, orig_ret_vaddr);
			else if ((place & 4) && half[1] == trampoline) /* of a 32-bit task */
				half[1] = BPF_CORE_READ(call, orig_ret_vaddr);
			else if (!(place & 7) && half[0] == trampoline)
				half[0] = BPF_CORE_READ(call, orig_ret_vaddr);
		}
		call = BPF_CORE_READ(call, next);
	}
	return 0;
}

#endif
