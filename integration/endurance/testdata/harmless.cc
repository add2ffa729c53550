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
#include <sys/mman.h>
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

// Writes at `code` a function that adds n to what work returns for n.
static void compile(unsigned char *code, unsigned n)
{
#if defined(__x86_64__)
	unsigned char made[] = {
		0x55, // push %rbp
		0x48, 0x89, 0xe5, // mov %rsp,%rbp
		0xbf, 0, 0, 0, 0, // mov $n,%edi
		0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, // movabs $work,%rax
		0xff, 0xd0, // call *%rax
		0x48, 0x05, 0, 0, 0, 0, // add $n,%rax
		0x5d, 0xc3, // pop %rbp; ret
	};
	unsigned long (*callee)(unsigned long) = work;
	memcpy(made + 5, &n, 4);
	memcpy(made + 11, &callee, 8);
	memcpy(made + 23, &n, 4);
#elif defined(__aarch64__)
	unsigned made[] = { 0xd2800000 | (n & 0xffff) << 5, 0xd65f03c0 }; // mov x0, #n; ret
#endif
	memcpy(code, made, sizeof(made));
	__builtin___clear_cache((char *)code, (char *)code + sizeof(made));
}

// A compiler of its own, that writes its code again while it runs: in memory that is writable at the same time, in such
// that is not, through another mapping of it, and in fresh memory at the same address.
static void compiles()
{
	enum { PAGE = 4096, BOTH = PROT_READ | PROT_WRITE | PROT_EXEC };
	int file = memfd_create("code", 0);
	if (file < 0 || ftruncate(file, PAGE))
		exit(1);
	void *all = mmap(nullptr, PAGE, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *turns = mmap(nullptr, PAGE, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *writes = mmap(nullptr, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	void *runs = mmap(nullptr, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	void *fresh = mmap(nullptr, PAGE, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned n = 0; n < 300; n++) {
		compile((unsigned char *)all, n);
		mprotect(turns, PAGE, PROT_READ | PROT_WRITE);
		compile((unsigned char *)turns, n + 1);
		mprotect(turns, PAGE, PROT_READ | PROT_EXEC);
		compile((unsigned char *)writes + n, n + 2);
		mmap(fresh, PAGE, BOTH, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		compile((unsigned char *)fresh, n + 3);
		for (void *code : { all, turns, (void *)((char *)runs + n), fresh })
			sum += ((unsigned long (*)())code)();
	}
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
	else if (what == "compiles")
		compiles();
	else
		return 2;
	printf("sum %lu\n", (unsigned long)sum);
	return 3;
}
