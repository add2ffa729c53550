/*
 * Functions that let another one run on a stack of its own. by_rbp and by_word keep the old stack pointer in rbp or on the
 * new stack, as Rust's stacker and gcc's __morestack do. by_link and by_fiber keep it as caml_c_call and caml_runstack of
 * OCaml 5 do, and are marked as signal frames like those. The caller's stack lies higher, or lower.
 */
#include <pthread.h>
#include <string.h>

#include "work.h"

static double seconds;
static char own[1 << 16] __attribute__((aligned(16)));    /* lies lower than all stacks */
static char beside[1 << 16] __attribute__((aligned(16))); /* lies higher than that one */

void by_rbp(void (*function)(void), char *top), by_word(void (*function)(void), char *top);
void by_link(void (*function)(void), char *top), by_fiber(void (*function)(void), char *top);
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
	"	ret\n	.cfi_endproc\n.size by_word, . - by_word\n"
	".globl by_link\n.type by_link, @function\n"
	"by_link: .cfi_startproc\n	.cfi_signal_frame\n"
	"	mov %rsp, -8(%rsi)\n"
	"	lea -16(%rsi), %rsp\n	.cfi_escape 0x0f, 5, 0x77, 8, 0x06, 0x23, 8\n" /* CFA: *(rsp + 8) + 8 */
	"	call *%rdi\n"
	"	mov 8(%rsp), %rsp\n	.cfi_def_cfa %rsp, 8\n"
	"	ret\n	.cfi_endproc\n.size by_link, . - by_link\n"
	".globl by_fiber\n.type by_fiber, @function\n"
	"by_fiber: .cfi_startproc\n	.cfi_signal_frame\n"
	"	lea -16(%rsi), %rax\n"
	"	mov %rsp, (%rax)\n"
	"	mov %rax, -24(%rsi)\n"
	"	lea -32(%rsi), %rsp\n"
	"	.cfi_escape 0x0f, 8, 0x77, 8, 0x06, 0x23, 0, 0x06, 0x23, 8\n" /* CFA: **(rsp + 8) + 8 */
	"	call *%rdi\n"
	"	mov 8(%rsp), %rax\n"
	"	mov (%rax), %rsp\n	.cfi_def_cfa %rsp, 8\n"
	"	ret\n	.cfi_endproc\n.size by_fiber, . - by_fiber\n");

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
FRAME void keeps_link(char *top)
{
	by_link(works, top);
	sum++;
}
FRAME void nested(void)
{
	keeps_link(beside + sizeof beside / 2);
	sum++;
}
FRAME void keeps_fiber(char *top)
{
	by_fiber(nested, top);
	sum++;
}
FRAME void *thread(void *unused)
{
	keeps_rbp(beside + sizeof beside);
	keeps_word(beside + sizeof beside);
	keeps_fiber(beside + sizeof beside);
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
