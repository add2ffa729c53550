// Does something, as its first argument says, that probes must not disturb, and prints what came out of it.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/seccomp.h>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

static volatile unsigned long sum;

// Is probed. Allocates, so that heap probes are in it, too.
extern "C" __attribute__((noinline)) unsigned long work(unsigned long n)
{
	std::vector<unsigned long> v(n % 64 + 1, n);
	sum = sum * 31 + v[n % v.size()];
	return sum;
}

// Is probed. Throws for each third n.
extern "C" __attribute__((noinline)) unsigned long parse(unsigned long n)
{
	std::string text = std::to_string(n);
	if (n % 3 == 0)
		throw std::runtime_error(text);
	return work(n) + text.size();
}

static jmp_buf back;

// Is probed. Leaves by longjmp for each fourth n.
extern "C" __attribute__((noinline)) unsigned long jump(unsigned long n)
{
	unsigned long got = work(n);
	if (n % 4 == 0)
		longjmp(back, 1);
	return got;
}

static ucontext_t caller, callee;
static char stack[64 << 10];

// Is probed. Goes to another stack and comes back in the middle.
extern "C" __attribute__((noinline)) unsigned long yields(unsigned long n)
{
	unsigned long before = work(n);
	swapcontext(&callee, &caller);
	return before ^ work(n + 1);
}

static void coroutine()
{
	for (unsigned long n = 0;; n++)
		sum += yields(n);
}

static void throws()
{
	unsigned long caught = 0;
	for (unsigned long n = 0; n < 300; n++) {
		try {
			sum += parse(n);
		} catch (const std::runtime_error &e) {
			caught += strlen(e.what());
		}
	}
	try {
		volatile size_t most = (size_t)1 << 62;
		sum += *new char[most];
	} catch (const std::bad_alloc &) {
		caught++;
	}
	printf("caught %lu\n", caught);
}

static void longjumps()
{
	for (volatile unsigned long n = 0; n < 300; n++)
		if (!setjmp(back))
			sum += jump(n);
}

static void coroutines()
{
	getcontext(&callee);
	callee.uc_stack.ss_sp = stack;
	callee.uc_stack.ss_size = sizeof(stack);
	makecontext(&callee, coroutine, 0);
	for (int n = 0; n < 300; n++)
		swapcontext(&caller, &callee);
}

static void children(char **argv)
{
	for (int n = 0; n < 20; n++) {
		int status;
		pid_t pid = n % 2 ? fork() : vfork();
		if (pid == 0 && n % 2)
			_exit(work(n) % 100);
		if (pid == 0) {
			execl(argv[0], argv[0], "child", (char *)0);
			_exit(1);
		}
		waitpid(pid, &status, 0);
		printf("%d ", WEXITSTATUS(status));
	}
}

static void handler(int)
{
	sum = work(sum % 1000);
}

static void signals()
{
	static char other[64 << 10];
	stack_t alternative = {};
	struct sigaction action = {};

	alternative.ss_sp = other;
	alternative.ss_size = sizeof(other);
	sigaltstack(&alternative, nullptr);
	action.sa_handler = handler;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &action, nullptr);
	for (int n = 0; n < 300; n++) {
		work(n);
		raise(SIGUSR1);
	}
}

// The kernel kills a program in strict mode for any system call but read, write, _exit and sigreturn.
static void strict()
{
	char line[64];
	static char memory[4096];

	setvbuf(stdout, memory, _IOFBF, sizeof(memory));
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	for (int n = 0; n < 300; n++)
		work(n);
	int length = snprintf(line, sizeof(line), "sum %lu\n", (unsigned long)sum);
	syscall(SYS_write, 1, line, length);
	syscall(SYS_exit, 7);
}

int main(int argc, char **argv)
{
	std::string what = argc > 1 ? argv[1] : "";

	if (what == "child")
		return work(5) % 100;
	if (what == "throws")
		throws();
	else if (what == "longjumps")
		longjumps();
	else if (what == "coroutines")
		coroutines();
	else if (what == "children")
		children(argv);
	else if (what == "signals")
		signals();
	else if (what == "strict")
		strict();
	else
		return 2;
	printf("sum %lu\n", (unsigned long)sum);
	return 3;
}
