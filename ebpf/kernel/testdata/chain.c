/*
 * bpf/language/chain.h, built for the host: reads cases from standard input and writes what walking the
 * chain of each makes. See parity_test.go, which has the same structs.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "abi/abi.h"

enum { MEMORY_BYTES = 4096, KEPT_FRAMES = 64 };

struct chain_case {
	struct interpreter interpreter;
	uint64_t pointer, id, bias;
	uint64_t memory_base;
	uint8_t memory[MEMORY_BYTES];
};

struct chain_result {
	uint64_t end, frames;
	uint64_t words[KEPT_FRAMES][MAX_LAYOUT_WORDS + 1];
};

static struct chain_case in;

static int read_user(void *dst, uint64_t size, uint64_t addr)
{
	uint64_t at = addr - in.memory_base;

	if (at > MEMORY_BYTES || size > MEMORY_BYTES - at) {
		memset(dst, 0, size); /* as the kernel does */
		return -14; /* EFAULT */
	}
	memcpy(dst, in.memory + at, size);
	return 0;
}

static uint64_t thread_pointer(void)
{
	return in.pointer;
}

static uint32_t thread_id(void)
{
	return (uint32_t)in.id;
}

#include "language/chain.h"

static int walk(struct chain *c, struct chain_result *out)
{
	const struct interpreter *i = &in.interpreter;
	int end = path_steps(c, i, 0, i->start_count);

	if (!end && i->owner)
		end = find_node(c, i);
	if (!end)
		end = path_steps(c, i, i->start_count, i->step_count);
	for (int n = 0; !end && n < MAX_CHAIN_FRAMES; n++) {
		end = read_frame(c, i);
		if (end)
			break;
		uint64_t *words = out->words[out->frames++ % KEPT_FRAMES];
		memset(words, 0, sizeof(out->words[0]));
		for (int w = 0; w < i->frame.word_count; w++)
			words[w] = c->blocks.frame[w];
		words[MAX_LAYOUT_WORDS] = cookie_of(&c->blocks, &i->frame);
		end = next_frame(c, i);
	}
	return end ? end_of_state(c, end) : CHAIN_TOO_LONG;
}

int main(void)
{
	while (fread(&in, sizeof(in), 1, stdin) == 1) {
		static struct chain c;
		static struct chain_result out;

		memset(&c, 0, sizeof(c));
		memset(&out, 0, sizeof(out));
		c.bias = in.bias;
		begin_blocks(&c.blocks);
		out.end = (uint64_t)walk(&c, &out);
		fwrite(&out, sizeof(out), 1, stdout);
	}
	return 0;
}
