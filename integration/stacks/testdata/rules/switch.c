/*
 * A function that lets another one run on a stack of its own, and keeps the old stack pointer in rbp or on the new stack,
 * as Rust's stacker and gcc's __morestack do. The caller's stack lies higher, or lower.
 */
#include <pthread.h>
#include <string.h>

#include "work.h"

static double seconds;
static char own[1 << 16] __attribute__((aligned(16)));    /* lies lower than all stacks */
static char beside[1 << 16] __attribute__((aligned(16))); /* lies higher than that one */

void by_rbp(void (*function)(void), char *top), by_word(void (*function)(void), char *top);
__asm__(".text\n"
	".globl by_rbp\n.type by_rbp, @function\n"
	"by_rbp: .cfi_startproc\n"
	"	push %rbp\n	.cfi_def_cfa_offset 16\n	.cfi_offset %rbp, -16\n"
	"	mov %rsp, %rbp\n	.cfi_def_cfa_register %rbp\n"
	"	mov %rsi, %rsp\n"
	"	call *%rdi\n"
	"	mov %rbp, %rsp\n"
	"	pop %rbp\n	.cfi_def_cfa %rsp, 8\n"
	"	ret\n	.cfi_endproc\n.size by_rbp, . - by_rbp\n"
	".globl by_word\n.type by_word, @function\n"
	"by_word: .cfi_startproc\n"
	"	mov %rsp, -16(%rsi)\n"
	"	lea -16(%rsi), %rsp\n	.cfi_escape 0x0f, 5, 0x77, 0, 0x06, 0x23, 8\n" /* CFA: *rsp + 8 */
	"	call *%rdi\n"
	"	mov (%rsp), %rsp\n	.cfi_def_cfa %rsp, 8\n"
	"	ret\n	.cfi_endproc\n.size by_word, . - by_word\n");

static unsigned long sum;
FRAME void works(void) { FOR_SECONDS(seconds) sum += burn(100000); }
FRAME void keeps_rbp(char *top)
{
	by_rbp(works, top);
	sum++;
}
FRAME void keeps_word(char *top)
{
	by_word(works, top);
	sum++;
}
FRAME void *thread(void *unused)
{
	keeps_rbp(beside + sizeof beside);
	keeps_word(beside + sizeof beside);
	return unused;
}

int main(int argc, char **argv)
{
	(void)argc;
	seconds = atof(argv[1]);
	keeps_rbp(beside + sizeof beside);
	pthread_attr_t low;
	pthread_t started;
	if (pthread_attr_init(&low) || pthread_attr_setstack(&low, own, sizeof own) ||
	    pthread_create(&started, &low, thread, 0) || pthread_join(started, 0))
		return 1;
	return 0;
}
