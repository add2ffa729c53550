/*
 * A chain of 60 functions, f00 calls f01 ... calls f59, which burns CPU. Each is a frame of its own: none is inlined,
 * cloned, folded with another, or left by a tail call. Their frames differ in kind, so that each way to find the CFA
 * is on the stack: by the stack pointer, small and large; by the frame pointer (alloca); realigned (DRAP).
 */
#pragma once
#include <alloca.h>
#include <stdlib.h>
#include <string.h>

/* Two builds under different names are different programs, with build IDs of their own. */
static const char program[] __attribute__((used)) = PROGRAM;

struct chain {
	int (*compare)(const void *, const void *); /* f40, for qsort to call */
	long rounds;                                /* of the loop in f59 */
};

struct item { /* what f39 sorts */
	struct chain *chain;
	int key;
};

#define FRAME __attribute__((noipa)) unsigned long

/* CFA = rsp + a little */
#define PLAIN(this, next) \
	unsigned long next(struct chain *); \
	FRAME this(struct chain *c) { return next(c) + 1; }

/* CFA = rsp + bytes and a little; callee-saved registers are pushed as well */
#define LARGE(this, next, bytes) \
	unsigned long next(struct chain *); \
	FRAME this(struct chain *c) \
	{ \
		volatile unsigned char pad[bytes]; \
		unsigned long a = c->rounds, b = (unsigned long)c; \
		pad[0] = 1; \
		unsigned long r = next(c); \
		return r + a * b + pad[0]; \
	}

/* CFA = rbp + 16, whatever the compiler was told about frame pointers */
#define ALLOCA(this, next) \
	unsigned long next(struct chain *); \
	FRAME this(struct chain *c) \
	{ \
		volatile unsigned char *pad = alloca((c->rounds & 63) + 1); \
		pad[0] = 2; \
		return next(c) + pad[0]; \
	}

/* CFA = *(rbp - 8): the stack is realigned and the caller's one kept in memory */
#define REALIGNED(this, next) \
	unsigned long next(struct chain *); \
	FRAME this(struct chain *c) \
	{ \
		_Alignas(64) volatile unsigned char line[64]; \
		volatile unsigned char *pad = alloca((c->rounds & 63) + 1); \
		line[0] = pad[0] = 3; \
		return next(c) + line[0] + pad[0]; \
	}
