// Each stack that this program can have is known, see TestStacksThroughReturnProbes. All of its functions have a return
// probe but main, burn, and those that exceptions or jumps leave.
#include <csignal>
#include <cstdlib>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FUNCTION extern "C" __attribute__((noinline, noclone))

static volatile unsigned long sink;

FUNCTION void burn() { for (int i = 0; i < 200000; i++) sink = sink + i; }

// Functions that call each other.
FUNCTION void inner() { burn(); sink = sink + 1; }
FUNCTION void middle() { inner(); sink = sink + 1; }
FUNCTION void outer() { middle(); sink = sink + 1; }
FUNCTION void nested() { outer(); sink = sink + 1; }

FUNCTION void recurse(int n) { n ? recurse(n - 1) : burn(); sink = sink + 1; }
FUNCTION void recursion() { recurse(20); sink = sink + 1; }

// A function that jumps to another one: both have the same return address.
FUNCTION void target() { burn(); sink = sink + 1; }
FUNCTION void jumps();
asm(".globl jumps\n.type jumps, @function\njumps:\n.cfi_startproc\nnop\njmp target\n.cfi_endproc\n.size jumps, . - jumps\n");
FUNCTION void tails() { jumps(); sink = sink + 1; }

// Functions that do nothing: most samples are where the kernel handles their probes. The first instruction of one is
// done by the kernel, the CPU steps over that of the other.
FUNCTION void pushes();
FUNCTION void steps();
asm(".globl pushes\n.type pushes, @function\npushes:\n.cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\nmov %rsp, %rbx\n"
    "pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size pushes, . - pushes\n"
    ".globl steps\n.type steps, @function\nsteps:\n.cfi_startproc\nsub $24, %rsp\n.cfi_adjust_cfa_offset 24\n"
    "add $24, %rsp\n.cfi_adjust_cfa_offset -24\nret\n.cfi_endproc\n.size steps, . - steps\n");
FUNCTION void traps() { for (int i = 0; i < 300; i++) { pushes(); steps(); } }

// Calls that never return: what the kernel has noted of them stays there for a while.
static void *back[5];
FUNCTION void deeper() { burn(); __builtin_longjmp(back, 1); }
FUNCTION void jumper() { deeper(); sink = sink + 1; }
FUNCTION void leaves()
{
	if (!__builtin_setjmp(back))
		jumper();
	burn();
}

FUNCTION void handler(int) { burn(); sink = sink + 1; }
FUNCTION void interrupted()
{
	int pid = getpid(), result;
	asm volatile("syscall" : "=a"(result) : "0"(SYS_tgkill), "D"(pid), "S"(pid), "d"(SIGUSR1) : "rcx", "r11", "memory");
	sink = sink + 1;
}
FUNCTION void signals() { interrupted(); sink = sink + 1; }

struct animal {
	virtual ~animal() {}
	virtual void speaks() = 0;
};
struct dog : animal {
	__attribute__((noinline)) void speaks() override { burn(); sink = sink + 1; }
};
static animal *volatile pet = new dog;
FUNCTION void thrower() { if (sink + 1) throw 1; }
FUNCTION void catcher()
{
	try {
		thrower();
	} catch (int) {
		pet->speaks();
	}
	sink = sink + 1;
}
FUNCTION void exceptions() { catcher(); sink = sink + 1; }

// Processes that end before the profiler knows much of them.
FUNCTION void forks()
{
	pid_t child = fork();
	if (child) {
		wait4(child, nullptr, 0, nullptr); // not waitpid, which jumps to it: a stack could have either
		return;
	}
	for (int i = 0; i < 10; i++)
		nested();
	_exit(0);
}

// A process that waits.
FUNCTION void asks()
{
	char c;
	while (read(0, &c, 1) == 1)
		sink = sink + 1;
}
FUNCTION void waits() { asks(); sink = sink + 1; }

__attribute__((constructor)) static void prepares() { signal(SIGUSR1, handler); }

// main calls nothing else, as the test knows every stack below it.
int main(int argc, char **argv)
{
	char mode = argc > 1 ? *argv[1] : 0;
	bool children = mode == 'f';
	if (mode == 'w')
		waits();
	while (getppid() != 1) {
		if (children) {
			forks();
			continue;
		}
		nested();
		recursion();
		tails();
		traps();
		leaves();
		signals();
		exceptions();
	}
}
