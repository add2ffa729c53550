// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Tracks the memory that programs have allocated and not freed. It is loaded only when needed, since each call of an
 * allocator becomes slower. Programs run at the entries of allocator functions, and one at the instructions by which
 * allocating functions return. No return address is replaced: unwinders of exceptions and of other profilers read them.
 *
 * A block of n bytes is sampled with the probability n / period, or always from period bytes on, and stands for max(n,
 * period) bytes: so the sum of the blocks in use is right on average, whatever the order of calls. Between calls, only
 * the sampled blocks are kept.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "abi/abi.h"
#include "unwind/regs.h"
#include "abi/heap.h"
#include "sample/hit.h"

char _license[] SEC("license") = "GPL";

/* How many bytes are allocated for one sample. */
const volatile __u32 heap_period = 512 << 10;

const volatile struct heap_enums heap_enums = {};
volatile struct heap_counters heap_count = {};

/* Blocks in use that were sampled. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HEAP_BLOCKS);
	__type(key, struct heap_key);
	__type(value, struct heap_block);
} heap_blocks SEC(".maps");

/* Calls that have not returned, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HEAP_CALLS);
	__type(key, __u64);
	__type(value, struct heap_call);
} heap_calls SEC(".maps");

/* Ignored processes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HEAP_IGNORED);
	__type(key, __u32);
	__type(value, __u8);
} heap_ignored SEC(".maps");

/* Traps of processes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HEAP_IGNORED);
	__type(key, __u32);
	__type(value, struct trap_counts);
} heap_traps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, HEAP_RING_BYTES);
} heap_samples SEC(".maps");

enum called {
	INNERMOST, /* malloc, which may be called by the other functions of its allocator, and calls none of them */
	OUTER,
};

ALWAYS_INLINE struct trap_counts *traps_of(__u64 id)
{
	__u32 pid = id >> 32;
	struct trap_counts *traps = bpf_map_lookup_elem(&heap_traps, &pid), none = {};

	if (traps)
		return traps;
	bpf_map_update_elem(&heap_traps, &pid, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&heap_traps, &pid);
}

ALWAYS_INLINE void count_trap(__u64 id, int stepped)
{
	struct trap_counts *traps = traps_of(id);

	if (traps)
		__sync_fetch_and_add(stepped ? &traps->stepped : &traps->emulated, 1);
}

/* Counts a trap at the entry of a function, and returns whether its process is ignored. */
ALWAYS_INLINE int enters_ignored(sampled_regs *ctx, __u64 id)
{
	__u32 pid = id >> 32;
	int stepped =
		bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_attach_cookie) && bpf_get_attach_cookie(ctx);

	count_trap(id, stepped);
	return bpf_map_lookup_elem(&heap_ignored, &pid) != 0;
}

/* How many bytes a block of that size stands for; 0 if it is not sampled. */
ALWAYS_INLINE __u64 draw(__u64 size)
{
	__u64 period = heap_period;

	if (size >= period)
		return size;
	return (bpf_get_prandom_u32() * period) >> 32 < size ? period : 0;
}

ALWAYS_INLINE void forget_block(__u64 id, __u64 address)
{
	struct heap_key key = { .address = address, .pid = id >> 32 };

	/* Most blocks are not known, and a lookup takes no lock. */
	if (address && bpf_map_lookup_elem(&heap_blocks, &key))
		bpf_map_delete_elem(&heap_blocks, &key);
}

/* The entry of a function that allocates. Calls within another call count as that one. */
ALWAYS_INLINE int begin_call(const sampled_regs *regs, __u64 id, __u64 size, __u64 result, enum called called)
{
	struct heap_call *outer = bpf_map_lookup_elem(&heap_calls, &id);
	struct heap_call call = { .sp = regs->sp, .result = result };

	if (outer && outer->sp >= call.sp && outer->nested < HEAP_NESTED_CALLS) {
		outer->nested++;
		return 0;
	}
	call.weight = draw(size);
	if (!call.weight && called == INNERMOST) {
		if (outer) /* the noted call has never returned to its caller */
			bpf_map_delete_elem(&heap_calls, &id);
		return 0;
	}
	if (bpf_map_update_elem(&heap_calls, &id, &call, BPF_ANY))
		__sync_fetch_and_add(&heap_count.busy, 1);
	return 0;
}

SEC("uprobe")
int heap_malloc(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_call(ctx, id, ARGUMENT_1(ctx), 0, INNERMOST);
}

/* (size, ...) */
SEC("uprobe")
int heap_new(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_call(ctx, id, ARGUMENT_1(ctx), 0, OUTER);
}

/* (alignment, size) */
SEC("uprobe")
int heap_aligned(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_call(ctx, id, ARGUMENT_2(ctx), 0, OUTER);
}

/* (result, alignment, size) */
SEC("uprobe")
int heap_posix_memalign(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_call(ctx, id, ARGUMENT_3(ctx), ARGUMENT_1(ctx), OUTER);
}

/* Bytes of an array; 0 if no memory could hold it. */
ALWAYS_INLINE __u64 bytes_of(__u64 count, __u64 size)
{
	return count >> 32 || size >> 32 ? 0 : count * size;
}

/* (count, size) */
SEC("uprobe")
int heap_calloc(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_call(ctx, id, bytes_of(ARGUMENT_1(ctx), ARGUMENT_2(ctx)), 0, OUTER);
}

/* (heap, count, size) */
SEC("uprobe")
int heap_of_calloc(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_call(ctx, id, bytes_of(ARGUMENT_2(ctx), ARGUMENT_3(ctx)), 0, OUTER);
}

/*
 * The entry of realloc. The old block is forgotten at once: when the call returns, another thread may have its address.
 * The call keeps the old block, and makes it known again if the call fails.
 */
ALWAYS_INLINE int begin_realloc(const sampled_regs *regs, __u64 id, __u64 address, __u64 size)
{
	struct heap_key key = { .address = address, .pid = id >> 32 };
	struct heap_block *known = address ? bpf_map_lookup_elem(&heap_blocks, &key) : 0;
	struct heap_block old = {};

	if (known) {
		old = *known;
		bpf_map_delete_elem(&heap_blocks, &key);
	}
	begin_call(regs, id, size, 0, OUTER);
	struct heap_call *call = bpf_map_lookup_elem(&heap_calls, &id);
	if (known && size && call && call->sp == regs->sp) {
		call->old_address = address;
		call->old = old;
	}
	return 0;
}

/* (block, size, ...) */
SEC("uprobe")
int heap_realloc(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_realloc(ctx, id, ARGUMENT_1(ctx), ARGUMENT_2(ctx));
}

/* (block, count, size) */
SEC("uprobe")
int heap_reallocarray(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id)
		       ? 0
		       : begin_realloc(ctx, id, ARGUMENT_1(ctx), bytes_of(ARGUMENT_2(ctx), ARGUMENT_3(ctx)));
}

/* (heap, block, size, ...) */
SEC("uprobe")
int heap_of_realloc(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id) ? 0 : begin_realloc(ctx, id, ARGUMENT_2(ctx), ARGUMENT_3(ctx));
}

/* (heap, block, count, size, ...) */
SEC("uprobe")
int heap_of_reallocarray(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	return enters_ignored(ctx, id)
		       ? 0
		       : begin_realloc(ctx, id, ARGUMENT_2(ctx), bytes_of(ARGUMENT_3(ctx), ARGUMENT_4(ctx)));
}

/* (block, ...) */
SEC("uprobe")
int heap_free(sampled_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	if (!enters_ignored(ctx, id))
		forget_block(id, ARGUMENT_1(ctx));
	return 0;
}

ALWAYS_INLINE void copy_heap_stack(struct heap_sample *s)
{
	__u64 from = s->regs.sp & ~(STACK_PAGE - 1ULL);

	s->stack_pages = 0;
	for (int i = 0; i < HEAP_STACK_PAGES; i++) {
		if (bpf_probe_read_user(s->stack + i * STACK_PAGE, STACK_PAGE, (const void *)(from + i * STACK_PAGE)))
			break;
		s->stack_pages = i + 1;
	}
}

/* Changes the registers at an instruction that returns to the registers of the caller after the return. */
ALWAYS_INLINE void leave_function(struct heap_sample *s)
{
	if (!CALL_PUSHES_RETURN_ADDRESS) {
		s->regs.pc = STRIP_PAC(s->regs.lr);
		return;
	}
	if (bpf_probe_read_user(&s->regs.pc, sizeof(s->regs.pc), (const void *)s->regs.sp))
		s->regs.pc = 0;
	s->regs.sp += sizeof(__u64);
	s->regs.general[7] = s->regs.sp; /* DWARF number of rsp */
}

/* Makes a block known. It is a separate function, as find_entry_registers is. */
static __attribute__((noinline)) long note_block(__u64 id, __u64 address, __u64 time, __u64 weight)
{
	struct heap_key key = { .address = address, .pid = id >> 32 };
	struct heap_block block = { .time = time, .weight = weight };

	return bpf_map_update_elem(&heap_blocks, &key, &block, BPF_ANY);
}

/* Makes the block known and writes its sample, or neither. */
ALWAYS_INLINE void take_sample(sampled_regs *ctx, __u64 id, __u64 address, __u64 weight)
{
	__u64 time = bpf_ktime_get_ns();
	struct heap_sample *s = bpf_ringbuf_reserve(&heap_samples, sizeof(*s), 0);

	if (!s) {
		__sync_fetch_and_add(&heap_count.lost, 1);
		return;
	}
	if (note_block(id, address, time, weight)) {
		__sync_fetch_and_add(&heap_count.full, 1);
		bpf_ringbuf_discard(s, BPF_RB_NO_WAKEUP);
		return;
	}
	s->key = (struct heap_key){ .address = address, .pid = id >> 32 };
	s->block = (struct heap_block){ .time = time, .weight = weight };
	s->tid = (__u32)id;
	s->cpu = bpf_get_smp_processor_id();
	s->unused = 0;
	SET_REGISTERS(s, ctx);
	leave_function(s);
	copy_heap_stack(s);
	take_walk(ctx, OF_USER, time);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP); /* user space reads from time to time */
}

/* Makes the block known again that a call of realloc was given and has not changed. */
ALWAYS_INLINE void keep_block(__u64 id, const struct heap_call *call)
{
	struct heap_key key = { .address = call->old_address, .pid = id >> 32 };

	if (key.address && bpf_map_update_elem(&heap_blocks, &key, &call->old, BPF_ANY))
		__sync_fetch_and_add(&heap_count.full, 1);
}

/*
 * An instruction returns from a function that allocates, or from one that such a function has jumped to: the stack
 * pointer is then the same as at the entry. Returns how many bytes the sample stands for, 0 if none is due, and sets
 * the address of the block. It is a separate function, as find_entry_registers is.
 */
static __attribute__((noinline)) __u64 leave_call(sampled_regs *ctx, __u64 *address)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct heap_call *noted = bpf_map_lookup_elem(&heap_calls, &id);

	count_trap(id, 1);
	if (!noted || ctx->sp < noted->sp) /* from a call within it */
		return 0;
	struct heap_call call = *noted;
	bpf_map_delete_elem(&heap_calls, &id);
	if (ctx->sp != call.sp)
		return 0;
	if (call.result && (*address || bpf_probe_read_user(address, sizeof(*address), (const void *)call.result)))
		return 0;
	if (*address)
		return call.weight;
	keep_block(id, &call);
	return 0;
}

ALWAYS_INLINE int end_call(sampled_regs *ctx, __u64 address)
{
	__u64 weight = leave_call(ctx, &address);

	if (weight)
		take_sample(ctx, bpf_get_current_pid_tgid(), address, weight);
	return 0;
}

SEC("uprobe")
int heap_return(sampled_regs *ctx)
{
	return end_call(ctx, RETURNED(ctx));
}

/* A function jumps to a function that returns its first argument, as memset does. */
SEC("uprobe")
int heap_return_argument(sampled_regs *ctx)
{
	return end_call(ctx, ARGUMENT_1(ctx));
}
