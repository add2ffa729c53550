/*
 * The C stepper of bpf/unwind/step.h, built for the host: reads cases from standard
 * input and writes what one step, or one look-up of a rule, makes of each. See
 * parity_test.go, which has the same structs.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "abi/abi.h"

enum { MEMORY_WORDS = 256 };

struct step_case {
	uint64_t pc, sp, fp, lr, thread;
	uint64_t general[16];
	uint8_t exact, full, lr_valid, switches;
	uint32_t frame_flags;
	uint64_t rule[2];
	uint64_t memory_base;
	uint64_t memory_words;
	uint64_t memory[MEMORY_WORDS];
};

struct step_result {
	uint64_t outcome;
	uint64_t pc, sp, fp, lr, thread;
	uint64_t general[16];
	uint8_t exact, full, lr_valid, switches;
	uint32_t frame_flags;
};

static struct step_case in;
static struct slab slab;

static int read_user(void *dst, uint64_t size, uint64_t addr)
{
	uint64_t at = addr - in.memory_base, end = in.memory_words * 8;

	if (at > end || size > end - at)
		return -14; /* EFAULT */
	memcpy(dst, (char *)in.memory + at, size);
	return 0;
}

static struct slab *table_slab(uint32_t index)
{
	return index >> SLAB_SHIFT ? 0 : &slab;
}

static int stack_ends_at(uint64_t addr)
{
	return in.memory_base + in.memory_words * 8 - addr <= 256;
}

static inline uint64_t thread_pointer(void)
{
	return in.thread;
}

#include "unwind/code.h"

static int called_from(uint64_t addr)
{
	return follows_call(addr) || is_trampoline(addr);
}

#include "unwind/rules.h"
#include "unwind/step.h"

static void step_once(void)
{
	struct unwinder u = { .exact = in.exact, .full = in.full, .lr_valid = in.lr_valid, .switches = in.switches, .frame_flags = in.frame_flags & 15, .window_base = EMPTY_WINDOW,
		.rbx_known = in.frame_flags >> 4 & 1 };
	struct step_result out = { 0 };
	struct wide_rule rule;

	u.regs.pc = in.pc;
	u.regs.sp = in.sp;
	u.regs.fp = in.fp;
	u.regs.lr = in.lr;
	u.regs.x28 = in.thread;
	memcpy(u.regs.general, in.general, sizeof(in.general));
	memcpy(&rule, in.rule, sizeof(rule));
	out.outcome = apply_rule(&u, &rule);
	out.pc = u.regs.pc;
	out.sp = u.regs.sp;
	out.fp = u.regs.fp;
	out.lr = u.regs.lr;
	out.thread = CALL_PUSHES_RETURN_ADDRESS ? in.thread : u.regs.x28;
	memcpy(out.general, u.regs.general, sizeof(out.general));
	out.exact = u.exact;
	out.full = u.full;
	out.lr_valid = u.lr_valid;
	out.switches = u.switches;
	out.frame_flags = u.frame_flags | (uint32_t)u.rbx_known << 4;
	fwrite(&out, sizeof(out), 1, stdout);
}

/* The page's words are memory[1...], memory[0] counts its rows; pc is the address looked up, full the shift of pages. */
static void look_up(void)
{
	enum { DIRECTORY = 8, ROWS = 4096 };
	struct unwinder u = { 0 };
	struct wide_rule rule = { 0 };
	__u64 row;
	uint64_t out[2], shift = in.full, page = in.pc >> shift;

	u.mapping.directory = ((DIRECTORY - (uint32_t)page) & WORD_MASK) | (uint32_t)(shift - MIN_ROW_PAGE_SHIFT + 1) << WORD_BITS;
	slab.words[DIRECTORY] = ROWS | (in.memory[0] & 0xffff) << 32 | (uint64_t)ROW_PAGE_RESIDENT << 48;
	memcpy(&slab.words[ROWS], &in.memory[1], sizeof(in.memory) - 8);
	if (find_rule(&u, in.pc, &rule, &row))
		rule.cfa = 0xff;
	memcpy(out, &rule, sizeof(out));
	fwrite(out, sizeof(out), 1, stdout);
}

int main(int argc, char **argv)
{
	int rules = argc > 1 && !strcmp(argv[1], "rules");

	while (fread(&in, sizeof(in), 1, stdin) == 1)
		rules ? look_up() : step_once();
	return 0;
}
