/* A thread that the C library knows nothing of: made by clone(), or with -DRAW by the system call alone. */
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include "work.h"

static double seconds;
static volatile int done;
static _Alignas(16) char stack[65536];

FRAME int worker(void *argument)
{
	unsigned long sum = (unsigned long)argument;
	FOR_SECONDS(seconds) sum += burn(200000);
	done = 1;
	return sum == 42;
}

#ifdef RAW
long raw_clone(long flags, void *stack, int (*start)(void *));
__asm__(".text\n"
	".globl raw_clone\n"
	".type raw_clone, @function\n"
	"raw_clone: .cfi_startproc\n"
	"	mov %rdx, %r9\n"
	"	xor %edx, %edx\n"
	"	xor %r10d, %r10d\n"
	"	xor %r8d, %r8d\n"
	"	mov $56, %eax\n"
	"	syscall\n"
	"	test %eax, %eax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	xor %ebp, %ebp\n"
	"	xor %edi, %edi\n"
	"	call *%r9\n"
	"	xor %edi, %edi\n"
	"	mov $60, %eax\n"
	"	syscall\n"
	"	.cfi_endproc\n"
	".size raw_clone, . - raw_clone\n");
#endif

int main(int argc, char **argv)
{
	(void)argc;
	long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	seconds = atof(argv[1]);
#ifdef RAW
	/* Above the thread's first frame is zero. */
	if (raw_clone(flags, stack + sizeof stack - 64, worker) < 0)
		return 1;
#else
	if (clone(worker, stack + sizeof stack - 64, flags, NULL) < 0)
		return 1;
#endif
	while (!done)
		usleep(10000);
	return 0;
}
