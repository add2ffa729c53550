/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Samples, their frames and the counters of a CPU. */
#ifndef HEADWATER_ABI_SAMPLES_H
#define HEADWATER_ABI_SAMPLES_H

#include "rows.h"
#include "languages.h"

enum frame_flags {
	FRAME_RETURN_ADDRESS = 1, /* address is a return address */
	FRAME_POINTER = 2, /* reached by frame pointer, not by CFI */
	FRAME_FROZEN = 4, /* it is in the runtime's heap */
};

/* A user frame. With exe 0, address is the process's own, else the file's. */
struct frame {
	__u64 address;
	__u32 exe;
	__u32 flags;
};
_Static_assert(sizeof(struct frame) == 8 * FRAME_WORDS, "frame words");

enum sample_flags {
	SAMPLE_EXACT_PC = 1, /* `pc` is no return address */
	SAMPLE_IN_USER = 2, /* the CPU was in user mode */
	SAMPLE_REGISTERS = 4, /* general registers follow the frames, of the frame at pc */
	SAMPLE_RBX = 8, /* general registers follow the frames, but only rbx is of the frame at pc */
	SAMPLE_PART = 32, /* no sample: more of the stack of the CPU's sample before; packed */
	SAMPLE_CONTINUED = 64, /* a part follows */
	SAMPLE_FROM_LEAF = 16, /* pc, sp, ... are the leaf's: the walk met a rule that needs more registers */
	SAMPLE_PRECAUTION = 128, /* as SAMPLE_FROM_LEAF, but only in case the walk used old mappings */
};

/* The kinds of samples; flame/kind has the same numbers. */
enum sample_kind {
	KIND_CPU = 0,
	KIND_PAGE_FAULTS = 2,
	KIND_MAJOR_FAULTS = 3,
};

/*
 * The head of a sample in a CPU's ring. After it are kernel_frames addresses, then user_frames frames, both leaf first,
 * then runtime_words words of a chain (see runtime.h), then general registers if a flag says so, then stack_bytes of
 * the user stack, from the page of sp - RED_ZONE upwards. Only pages with a bit in stack_pages are valid. In a part,
 * each valid page is packed: PAIR_BITS_WORDS words with a bit for each pair of words that is not zero, then these
 * pairs. Other pages take no room. pc, sp, fp and lr are the registers where the walk stopped, from which user space
 * continues.
 */
struct sample {
	__u64 time; /* CLOCK_MONOTONIC, ns */
	__u32 pid;
	__u32 tid;
	__u32 cpu;
	__u16 kernel_frames;
	__u16 user_frames;
	__u32 stack_bytes;
	__u8 outcome;
	__u8 flags;
	__u16 size; /* of the whole sample, in words */
	__u32 generation; /* of the process's mappings the walk saw */
	__u32 stack_pages;
	__u32 kind; /* enum sample_kind */
	__u32 period; /* its weight: events, or ns of the clock */
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 lr;
	/* With a copy of the stack: start of the region in which a frame can be the outermost one; 0 if not known. */
	__u64 last_frames;
	__u32 exec; /* current_exec() of the thread; 0: none */
	__u32 unused;
	__u32 interpreter; /* id of the interpreter whose chain was read; 0 if none */
	__u16 runtime_words;
	__u8 chain_end; /* enum chain_end */
	__u8 codes; /* code objects that the sample names */
	char comm[COMM_LEN]; /* of the thread */
};
_Static_assert(sizeof(struct sample) == 120, "sample");
_Static_assert(MAX_KERNEL_FRAMES + MAX_USER_FRAMES * FRAME_WORDS + GENERAL_REGISTERS < MAX_FRAME_WORDS,
	       "frames and registers end below the mask");
_Static_assert(sizeof(struct sample) / 8 + MAX_FRAME_WORDS + MAX_STACK_BYTES / 8 <= SAMPLE_WORDS,
	       "a deepest sample fits");
_Static_assert(sizeof(struct sample) / 8 + MAX_PART_WORDS <= SAMPLE_WORDS, "a part of pages without a zero fits");

/* Per-CPU counters. */
struct counters {
	__u64 ticks; /* timer events of the CPU's clock */
	__u64 idle; /* part of ticks: on the idle task */
	__u64 ignored; /* part of ticks: in a process that matches no target */
	__u64 lost; /* part of ticks: samples that found the ring full */
	__u64 events; /* of other perf events, such as page faults */
	__u64 events_lost; /* part of events: samples that found the ring full */
	__u64 copies; /* samples that carry a copy of their stack */
	__u64 copied_bytes;
	__u64 uncopied; /* samples that need a copy, but came too fast one after another */
	__u64 outcomes[OUTCOMES];
	__u64 chains[CHAIN_ENDS];
	__u64 chain_frames; /* of all chains */
	__u64 codes; /* code objects that samples name */
	__u64 unnamed_codes; /* code objects that samples should name, but there were too many */
};

enum config_flags {
	CONFIG_USER_STACKS = 1,
	CONFIG_KERNEL_STACKS = 2,
	CONFIG_COPY_STACKS = 4, /* copy the stack of a walk that missed */
	CONFIG_KEEP_EVENTS = 8, /* let the perf event write its own record next to the sample */
	CONFIG_KNOWN_ONLY = 16, /* take no sample of a process that is not in the map `processes` */
};

#endif
