/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Adds to a sample the frames that its language runtime keeps. After the user frames are
 *   one word: the number of frames, and from bit 32 on the number of words of each
 *   the frames, leaf first: the words of the layout, then the cookie of the code object
 *   `codes` code objects that the kernel has not seen before, which have
 *     address and cookie
 *     the bytes of each text that could be read, 16 bits each
 *     the number of words of the cookie, the number of texts, and the words of each text: 8 bits each
 *     the words of the cookie
 *     the texts, each in its words
 *
 * Each step is a global function, as a step of the walk is.
 */
#ifndef HEADWATER_RUNTIME_H
#define HEADWATER_RUNTIME_H

#include "chain.h"
#include "../sample/maps.h"
#include "../sample/ring.h"
#include "../kernel/task.h"

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
} __attribute__((preserve_access_index));
struct super_block {
	__u32 s_dev;
} __attribute__((preserve_access_index));
struct file {
	struct inode *f_inode;
} __attribute__((preserve_access_index));

/* The latest end of the runtime's part: registers follow it, and must start below the mask. */
enum { RUNTIME_WORDS_END = MAX_FRAME_WORDS - GENERAL_REGISTERS - 1, CODE_HEAD_WORDS = 4 };

ALWAYS_INLINE struct interpreter *interpreter_of(struct sample_ring *ring)
{
	__u32 number = (__u32)ring->chain.interpreter;

	return bpf_map_lookup_elem(&interpreters, &number);
}

/* Where the next word of the runtime's part goes. */
ALWAYS_INLINE __u32 runtime_end(const struct sample *s)
{
	return s->kernel_frames + s->user_frames * FRAME_WORDS + s->runtime_words;
}

__attribute__((noinline)) int follow_path(__u32 cpu, __u32 from, __u32 to)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return CHAIN_NO_START;
	struct interpreter *in = interpreter_of(ring);
	return in ? path_steps(&ring->chain, in, from, to) : CHAIN_NO_START;
}

__attribute__((noinline)) int find_thread(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return CHAIN_NO_START;
	struct interpreter *in = interpreter_of(ring);
	return in ? find_node(&ring->chain, in) : CHAIN_NO_START;
}

/*
 * The word of the table with the code objects that have been named near an address: the last four, as tags of 16 bits.
 * Code objects near each other in memory are also near each other in the table: a chain meets few of its cache lines.
 */
ALWAYS_INLINE __u64 *known_near(struct known_codes *known, __u64 code, __u32 pid)
{
	__u64 region = (code >> (KNOWN_SHIFT + KNOWN_BITS) ^ (__u64)pid << 32) * GOLDEN;
	__u64 at = (code >> KNOWN_SHIFT) + (region >> 32);

	asm volatile("" : "+r"(at)); /* else clang drops the mask, which the verifier wants */
	return &known->tags[at & (KNOWN_WORDS - 1)];
}

/* The tag of a code object. 0 stands for none. */
ALWAYS_INLINE __u64 tag_of(__u64 code, __u64 cookie, __u32 pid)
{
	__u64 tag = (code ^ cookie ^ (__u64)pid << 40) * GOLDEN >> 48;

	return tag ? tag : 1;
}

/* Whether one of the four tags in a word is this one. */
ALWAYS_INLINE int has_tag(__u64 tags, __u64 tag)
{
	__u64 ones = 0x0001000100010001ULL, differences = tags ^ tag * ones;

	return ((differences - ones) & ~differences & ones << 15) != 0;
}

/* Notes a code object that has not been named yet, so that this sample names it. Naming one twice costs little. */
ALWAYS_INLINE void note_code(struct sample_ring *ring, const struct layout *l, const struct sample *s, __u64 cookie)
{
	struct chain *c = &ring->chain;
	__u64 code = code_of(&c->blocks, l);
	__u32 zero = 0;

	if (!code || !l->text_count)
		return;
	struct known_codes *known = bpf_map_lookup_elem(&known_codes, &zero);
	if (!known)
		return;
	__u64 *tags = known_near(known, code, s->pid), tag = tag_of(code, cookie, s->pid);
	if (has_tag(*tags, tag))
		return;
	if (ring->codes.unknown_count >= MAX_SAMPLE_CODES || ring->codes.named >= MAX_CODES) {
		ring->counters.unnamed_codes++;
		return;
	}
	*tags = *tags << 16 | tag;
	ring->codes.named++;
	ring->codes.unknown[ring->codes.unknown_count & (MAX_SAMPLE_CODES - 1)] = c->at;
	ring->codes.unknown_count++;
}

/*
 * Adds the frame that was read to the sample: the words of the layout, the number of the native frame if it is a slot,
 * and the cookie.
 */
ALWAYS_INLINE int add_frame(struct sample_ring *ring, const struct layout *l, const struct slot *slot, __u64 cookie)
{
	struct sample *s = next_sample(ring);
	__u32 begin = runtime_end(s), words = l->word_count;
	__u64 *to = body(s, begin);

	if (begin + MAX_LAYOUT_WORDS + 2 > RUNTIME_WORDS_END)
		return CHAIN_TOO_LONG;
	UNROLL for (__u32 i = 0; i < FEW_WORDS; i++)
		to[i] = ring->chain.blocks.frame[i];
	if (words > FEW_WORDS) {
		UNROLL for (__u32 i = FEW_WORDS; i < MAX_LAYOUT_WORDS; i++)
			to[i] = ring->chain.blocks.frame[i];
	}
	if (slot)
		*body(s, begin + words++) = slot->frame;
	*body(s, begin + words++) = cookie;
	s->runtime_words += words;
	ring->counters.chain_frames++;
	return CHAIN_NONE;
}

/* Adds one frame of the chain to the sample and continues with its caller. */
__attribute__((noinline)) int chain_frame(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return CHAIN_UNREADABLE;
	struct interpreter *in = interpreter_of(ring);
	if (!in)
		return CHAIN_UNREADABLE;
	struct chain *c = &ring->chain;
	int end = read_frame(c, in);
	if (end)
		return end;
	__u64 cookie = cookie_of(&c->blocks, &in->frame);
	end = add_frame(ring, &in->frame, 0, cookie);
	if (end)
		return end;
	note_code(ring, &in->frame, next_sample(ring), cookie);
	return next_frame(c, in);
}

/* Finds out whether the interpreter of a process has slots. p may be of the previous program. */
ALWAYS_INLINE void want_slots(struct sample_ring *ring, const struct process *p)
{
	__u32 number = p ? p->interpreter : 0;
	struct interpreter *in = number ? bpf_map_lookup_elem(&interpreters, &number) : 0;

	ring->slots.count = 0;
	ring->slots.wanted = in ? in->slots : 0;
	if (ring->slots.wanted) {
		ring->slots.low = in->slots_low;
		ring->slots.high = in->slots_high;
	}
}

/* Adds the frame of one slot to the sample. */
__attribute__((noinline)) int slot_frame(__u32 cpu, __u32 number)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return CHAIN_UNREADABLE;
	struct interpreter *in = interpreter_of(ring);
	if (!in)
		return CHAIN_UNREADABLE;
	struct chain *c = &ring->chain;
	const struct slot *slot = &ring->slots.at[number & (MAX_SLOTS - 1)];

	c->at = slot->fp;
	read_blocks(&c->blocks, &in->frame, c->at);
	__u64 cookie = cookie_of(&c->blocks, &in->frame);
	return cookie ? add_frame(ring, &in->frame, slot, cookie) : CHAIN_NONE; /* 0 stands for none */
}

/* Adds the slots of the current thread. */
ALWAYS_INLINE int take_slots(struct sample_ring *ring, __u32 cpu)
{
	int end = CHAIN_NONE;

	for (__u32 i = 0; !end && i < MAX_SLOTS; i++) {
		if (i >= ring->slots.count)
			return CHAIN_WHOLE;
		end = slot_frame(cpu, i);
	}
	return end ? end : CHAIN_TOO_LONG;
}

/* Copies bytes of a text to a word of the sample, fewer if a page ends before. Returns how many. */
ALWAYS_INLINE __u32 copy_text(struct sample *s, __u32 to, const struct text *t, __u64 at)
{
	__u32 bytes = t->bytes;

	if (!at || !bytes || bytes > MAX_TEXT_BYTES)
		return 0;
	at += t->offset;
	BOUND_BYTES(bytes);
	if (!bpf_probe_read_user(body(s, to), bytes, (const void *)at))
		return bytes;
	__u32 rest = 4096 - (at & 4095);
	if (rest >= bytes)
		return 0;
	bytes = rest;
	BOUND_BYTES(bytes);
	return bpf_probe_read_user(body(s, to), bytes, (const void *)at) ? 0 : bytes;
}

ALWAYS_INLINE __u32 text_words(const struct layout *l)
{
	__u32 words = 0;

	for (int i = 0; i < MAX_TEXTS; i++)
		words += i < l->text_count ? (l->texts[i].bytes + 7) / 8 : 0;
	return words;
}

/* Names the code object of a frame that was noted. */
__attribute__((noinline)) int carry_code(__u32 cpu, __u32 number)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	struct interpreter *in = interpreter_of(ring);
	if (!in)
		return 0;
	struct sample *s = next_sample(ring);
	const struct layout *l = &in->frame;
	struct blocks *b = &ring->chain.blocks;
	__u32 at = runtime_end(s), to = at + CODE_HEAD_WORDS + l->cookie_count;

	if (to + text_words(l) > RUNTIME_WORDS_END) {
		ring->counters.unnamed_codes++;
		return 0;
	}
	read_blocks(b, l, ring->codes.unknown[number & (MAX_SAMPLE_CODES - 1)]);
	*body(s, at) = code_of(b, l);
	*body(s, at + 1) = cookie_of(b, l);
	struct word_reader r = read_words(b, 0);
	for (__u32 i = 0; i < MAX_COOKIE_WORDS; i++) {
		if (i < l->cookie_count)
			*body(s, at + CODE_HEAD_WORDS + i) = word_of(&r, &l->cookie[i]);
	}
	__u64 lengths = 0, room = l->cookie_count | l->text_count << 8;
	for (__u32 i = 0; i < MAX_TEXTS; i++) {
		if (i >= l->text_count)
			break;
		__u64 object = word_at(b, l->texts[i].at) & l->texts[i].mask;

		lengths |= (__u64)copy_text(s, to, &l->texts[i], object) << 16 * i;
		room |= (__u64)((l->texts[i].bytes + 7) / 8) << (16 + 8 * i);
		to += (l->texts[i].bytes + 7) / 8;
	}
	*body(s, at + 2) = lengths;
	*body(s, at + 3) = room;
	s->runtime_words += to - at;
	s->codes++;
	ring->counters.codes++;
	return 0;
}

/* Walks the chain of the current thread. */
ALWAYS_INLINE int walk_chain(const struct interpreter *in, __u32 cpu)
{
	int end = follow_path(cpu, 0, in->start_count);

	if (!end && in->owner)
		end = find_thread(cpu);
	if (!end && in->step_count > in->start_count)
		end = follow_path(cpu, in->start_count, in->step_count);
	for (int i = 0; !end && i < MAX_CHAIN_FRAMES; i++)
		end = chain_frame(cpu);
	return end ? end : CHAIN_TOO_LONG;
}

/* Adds the chain of the current thread to the sample. The interpreter and its bias are set. */
__attribute__((noinline)) int take_chain(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	struct interpreter *in = interpreter_of(ring);
	if (!in)
		return 0;
	struct sample *s = next_sample(ring);
	__u64 second = s->time >> 30;

	if (ring->codes.second != second) {
		ring->codes.second = second;
		ring->codes.named = 0;
	}
	ring->codes.unknown_count = 0;
	ring->chain.at = 0;
	ring->chain.first_state = 0;
	begin_blocks(&ring->chain.blocks);
	__u32 head = runtime_end(s);
	s->runtime_words = 1;
	s->interpreter = in->id;
	int end = in->slots ? take_slots(ring, cpu) : walk_chain(in, cpu);

	s->chain_end = (__u8)end_of_state(&ring->chain, end);
	__u64 stride = in->frame.word_count + 1 + !!in->slots;
	*body(s, head) = (s->runtime_words - 1) / stride | stride << 32;
	for (__u32 i = 0; i < MAX_SAMPLE_CODES; i++) {
		if (i >= ring->codes.unknown_count)
			break;
		carry_code(cpu, i);
	}
	return 0;
}

/*
 * The interpreter of a process that user space does not know yet, if its program is a file that always has the same
 * interpreter: so the first sample of a new process also has its frames.
 */
__attribute__((noinline)) int find_program(__u32 cpu)
{
	struct sample_ring *ring = bpf_map_lookup_elem(&sample_rings, &cpu);

	if (!ring)
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct inode *inode = BPF_CORE_READ(task, mm, exe_file, f_inode);
	struct program_key key = { .inode = BPF_CORE_READ(inode, i_ino), .dev = BPF_CORE_READ(inode, i_sb, s_dev) };
	const struct program *p = bpf_map_lookup_elem(&programs, &key);

	if (p) {
		ring->chain.interpreter = p->interpreter;
		ring->chain.bias = BPF_CORE_READ(task, mm, start_code) - p->start_code;
	}
	return 0;
}

/* Whether there was a walk. */
ALWAYS_INLINE int has_user_part(int outcome)
{
	return outcome != OUTCOME_KERNEL_THREAD && outcome != OUTCOME_NO_USER_REGISTERS &&
	       outcome != OUTCOME_TASK_32BIT;
}

/*
 * Adds the frames that a language runtime keeps of the current thread, if there is one. p may be of the previous
 * program.
 */
ALWAYS_INLINE void take_runtime(struct sample_ring *ring, const struct process *p, __u32 cpu, int outcome)
{
	ring->chain.interpreter = 0;
	if (!has_user_part(outcome))
		return;
	if (outcome == OUTCOME_PROCESS_UNKNOWN) {
		find_program(cpu);
	} else if (p && ring->unwinder.mapping_count) {
		ring->chain.interpreter = p->interpreter;
		ring->chain.bias = p->bias;
	}
	if (!ring->chain.interpreter)
		return;
	take_chain(cpu);
	__u8 end = next_sample(ring)->chain_end;
	if (end < CHAIN_ENDS)
		ring->counters.chains[end]++;
}

#endif
