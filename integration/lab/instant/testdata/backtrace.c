/*
 * A library to be preloaded: it answers each SIGTRAP of a perf event with what libgcc's unwinder finds at
 * the interrupted instruction. integration/lab/instant compiles it, opens the events and reads the records.
 *
 * In each process, and again in each child of fork, it connects to the socket in $HEADWATER_INSTANT: who listens there opens the
 * event of that process, and answers with a byte. Records go to a file in the folder of the socket.
 *
 * With $HEADWATER_INSTANT_ASK the program is asked as well: the handler that it sets for SIGTRAP runs after libgcc's unwinder. What
 * that writes to the file ASKED goes next to the records, between "@ TID TIME" and "= TIME".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

enum {
	MAX_MODULES = 2048,
	MAX_FRAMES = 2048,
	FILE_BYTES = 64 << 20, /* sparse */
	ASKED = 700,
	STACKS = 64,
	STACK_BYTES = 256 << 10,
};

/* A file, and where it is: by the dynamic linker, or by a mapping that the program has made itself. */
struct module {
	uint64_t state; /* 0: free, 1: being written, 2: there */
	uint64_t id;	/* address of its link_map, or inode of the mapped file */
	uint64_t bias;	/* of ELF virtual addresses, or of offsets in the file */
	uint64_t by_offset;
	char path[PATH_MAX - 32];
};

struct frame {
	uint64_t address;
	uint64_t module; /* index + 1; 0: in no file */
};

enum end { END_ROOT = 1, END_NO_FDE = 2, END_FAILED = 3, END_FULL = 4 };

struct record {
	uint64_t bytes; /* of the record with the room after it */
	uint32_t pid, tid;
	uint64_t entered, left; /* CLOCK_MONOTONIC, ns; left is 0 until the record is whole */
	uint64_t pc, sp;
	uint32_t end, frames;
	struct frame frame[];
};

struct shared {
	uint64_t next;	  /* offset of the next record */
	uint64_t late;	  /* signals that came after their instant, because they were blocked */
	uint64_t dropped; /* there was no room */
	struct module modules[MAX_MODULES];
};

static struct shared *shared;
static char program[PATH_MAX], listener[sizeof(((struct sockaddr_un *)0)->sun_path)];

static int asks;
static void (*volatile asked)(int);
static char writing; /* one thread at a time writes to ASKED */

/*
 * Stacks of the handler: programs give their signals less than the unwinder takes. Rust's threads have 8 KiB, of which the
 * kernel's frame and the dynamic linker each take 3 KiB or more for the registers of AVX-512.
 */
static char *stacks;
static char taken[STACKS];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Returns index + 1 of a file. */
static uint64_t module(uint64_t id, uint64_t bias, uint64_t by_offset, const char *path)
{
	for (uint64_t i = 0; i < MAX_MODULES; i++) {
		struct module *m = &shared->modules[(id / 64 + bias / 4096 + i) % MAX_MODULES];
		uint64_t free = 0;

		if (__atomic_compare_exchange_n(&m->state, &free, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			m->id = id;
			m->bias = bias;
			m->by_offset = by_offset;
			memccpy(m->path, path, 0, sizeof(m->path) - 1);
			__atomic_store_n(&m->state, 2, __ATOMIC_RELEASE);
		}
		while (__atomic_load_n(&m->state, __ATOMIC_ACQUIRE) != 2)
			;
		if (m->id == id && m->bias == bias && m->by_offset == by_offset)
			return m - shared->modules + 1;
	}
	return 0;
}

/* Reads a line of a file without a buffer, for this is done where few functions may be called. */
static int line_of(int file, char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && read(file, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
	return n > 0;
}

/* Returns index + 1 of the file that the kernel has mapped at an address; 0 where there is none. */
static uint64_t mapped_at(uint64_t address)
{
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uint64_t found = 0;
	char line[512], *at;

	if (file < 0)
		return 0;
	while (!found && line_of(file, line, sizeof(line))) {
		uint64_t start = strtoul(line, &at, 16), end = strtoul(at + 1, &at, 16), offset = strtoul(at + 6, &at, 16);
		uint64_t inode = strtoul(at + 7, &at, 10); /* after the device */
		char *path = strchr(at, '/');

		if (address < start || address >= end)
			continue;
		if (inode && path)
			found = module(inode, start - offset, 1, path);
		break;
	}
	close(file);
	return found;
}

/* Returns index + 1 of the file at an address. */
static uint64_t module_of(uint64_t address)
{
	struct dl_find_object found;

	if (_dl_find_object((void *)address, &found))
		return mapped_at(address);
	const struct link_map *map = found.dlfo_link_map;
	const char *path = map == _r_debug.r_map ? program : *map->l_name ? map->l_name : "linux-vdso.so.1";
	return module((uint64_t)map, map->l_addr, 0, path);
}

/* Where a backtrace goes. */
struct walk {
	struct record *to;
	int inside; /* the frames of this library are over */
};

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *argument)
{
	struct walk *w = argument;
	int exact = 0;
	uint64_t address = _Unwind_GetIPInfo(context, &exact);

	w->inside |= exact;
	if (!w->inside)
		return _URC_NO_REASON;
	if (!address) {
		w->to->end = END_ROOT;
		return _URC_NO_REASON;
	}
	if (w->to->frames == MAX_FRAMES) {
		w->to->end = END_FULL;
		return _URC_END_OF_STACK;
	}
	w->to->end = END_NO_FDE; /* if it is the last one: libgcc ends where it finds no FDE */
	w->to->frame[w->to->frames++] = (struct frame){address, module_of(address - !exact)};
	return _URC_NO_REASON;
}

/* siginfo_t of a perf event, whose last fields glibc does not name: see linux/siginfo.h. */
struct perf_signal {
	int signo, error, code, pad;
	void *address;
	unsigned long data;
	uint32_t type, flags;
};

/*
 * Lets the program write what it knows of this instant, in a copy of the process: where a list of frames is half made, that may
 * crash. The copy sends no signal at its end, and other waits do not see it.
 */
static void ask_program(int number, uint64_t entered)
{
	char line[64];
	int status = -1;

	while (__atomic_test_and_set(&writing, __ATOMIC_ACQUIRE))
		sched_yield();
	(void)!write(ASKED, line, snprintf(line, sizeof(line), "@ %ld %llu\n", syscall(SYS_gettid), (unsigned long long)entered));
	long copy = syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!copy) {
		prctl(PR_SET_DUMPABLE, 0); /* no core */
		asked(number);
		_exit(0);
	}
	while (copy > 0 && syscall(SYS_wait4, copy, &status, __WCLONE, 0) < 0 && errno == EINTR)
		;
	(void)!write(ASKED, line, snprintf(line, sizeof(line), "%s %llu\n", status ? "!" : "=", (unsigned long long)now()));
	__atomic_clear(&writing, __ATOMIC_RELEASE);
}

/* A signal, and where its record goes. */
struct trap {
	int number;
	uint64_t entered;
	const greg_t *registers;
};

static void answer(struct trap *trap)
{
	const uint64_t most = sizeof(struct record) + MAX_FRAMES * sizeof(struct frame);
	uint64_t at = __atomic_fetch_add(&shared->next, most, __ATOMIC_ACQ_REL);

	if (at + most > FILE_BYTES) {
		__atomic_sub_fetch(&shared->next, most, __ATOMIC_ACQ_REL);
		__atomic_add_fetch(&shared->dropped, 1, __ATOMIC_RELAXED);
		return;
	}
	struct walk w = {(struct record *)((char *)shared + at), 0};
	w.to->bytes = most;
	w.to->pid = getpid();
	w.to->tid = syscall(SYS_gettid);
	w.to->entered = trap->entered;
	w.to->pc = trap->registers[REG_RIP];
	w.to->sp = trap->registers[REG_RSP];
	w.to->frames = w.to->end = 0;
	if (_Unwind_Backtrace(add, &w) != _URC_END_OF_STACK && w.to->end != END_FULL)
		w.to->end = END_FAILED;
	/* What is not used goes back, unless another thread has taken what follows. */
	uint64_t used = sizeof(struct record) + w.to->frames * sizeof(struct frame), next = at + most;
	if (__atomic_compare_exchange_n(&shared->next, &next, at + used, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		w.to->bytes = used;
	if (asked)
		ask_program(trap->number, trap->entered);
	w.to->left = now();
}

/* Calls a function on the stack that ends at top. Unwinders find the way back by its frame pointer. */
void call_on(char *top, void (*function)(struct trap *), struct trap *argument) __attribute__((visibility("hidden")));

__asm__(".text\n"
	".hidden call_on\n"
	".type call_on, @function\n"
	"call_on:\n"
	".cfi_startproc\n"
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset rbp, -16\n"
	"mov %rsp, %rbp\n"
	".cfi_def_cfa_register rbp\n"
	"mov %rdi, %rsp\n"
	"mov %rdx, %rdi\n"
	"call *%rsi\n"
	"leave\n"
	".cfi_def_cfa rsp, 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size call_on, . - call_on\n");

/* Returns the index of a free stack. Who has one waits for no other thread that needs one. */
static int take_stack(void)
{
	int i = 0;

	while (__atomic_test_and_set(&taken[i], __ATOMIC_ACQUIRE))
		if ((i = (i + 1) % STACKS) == 0)
			sched_yield();
	return i;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	enum { PERF = 6, LATE = 1 }; /* TRAP_PERF, TRAP_PERF_FLAG_ASYNC */
	const struct perf_signal *signal = (const void *)info;
	struct trap trap = {number, now(), ((ucontext_t *)context)->uc_mcontext.gregs};
	int error = errno;

	if (signal->code != PERF)
		return;
	if (signal->flags & LATE) {
		__atomic_add_fetch(&shared->late, 1, __ATOMIC_RELAXED);
		return;
	}
	int mine = take_stack();
	call_on(stacks + (mine + 1) * STACK_BYTES, answer, &trap);
	__atomic_clear(&taken[mine], __ATOMIC_RELEASE);
	errno = error;
}

/* Makes the file of this process. */
static int open_file(void)
{
	char path[sizeof(listener) + 64];

	snprintf(path, sizeof(path), "%s.%d.%llx", listener, getpid(), (unsigned long long)now());
	int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (file < 0)
		return 0;
	void *memory = ftruncate(file, FILE_BYTES) ? MAP_FAILED : mmap(0, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (memory == MAP_FAILED)
		return 0;
	if (shared)
		munmap(shared, FILE_BYTES); /* the parent's */
	shared = memory;
	shared->next = sizeof(*shared);
	writing = 0; /* other threads of the parent may have been, and in the handler */
	memset(taken, 0, sizeof(taken));
	strcat(path, ".asked");
	file = asks ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
	if (file >= 0) {
		dup3(file, ASKED, O_CLOEXEC);
		close(file);
	}
	return 1;
}

/* Asks for the event of this process, which has one thread. */
static void ask(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int error = errno, s = open_file() ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	char answer;

	memcpy(to.sun_path, listener, sizeof(listener));
	if (s >= 0 && !connect(s, (struct sockaddr *)&to, sizeof(to)))
		(void)!read(s, &answer, 1);
	if (s >= 0)
		close(s);
	errno = error;
}

static int (*next_sigaction)(int, const struct sigaction *, struct sigaction *);
static int (*next_sigprocmask)(int, const sigset_t *, sigset_t *);
static int (*next_pthread_sigmask)(int, const sigset_t *, sigset_t *);
static sighandler_t (*next_signal)(int, sighandler_t);

static void find(void)
{
	next_sigaction = dlsym(RTLD_NEXT, "sigaction");
	next_sigprocmask = dlsym(RTLD_NEXT, "sigprocmask");
	next_pthread_sigmask = dlsym(RTLD_NEXT, "pthread_sigmask");
	next_signal = dlsym(RTLD_NEXT, "signal");
}

static _Unwind_Reason_Code warm(struct _Unwind_Context *context, void *argument)
{
	(void)context, (void)argument;
	return _URC_NO_REASON;
}

static __attribute__((constructor)) void begin(void)
{
	const char *to = getenv("HEADWATER_INSTANT");

	find();
	if (!to || strlen(to) >= sizeof(listener) || readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		return;
	stacks = mmap(0, STACKS * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks == MAP_FAILED)
		return;
	strcpy(listener, to);
	asks = getenv("HEADWATER_INSTANT_ASK") != 0;
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	sigfillset(&action.sa_mask); /* a handler on the program's signal stack would begin where this one's frame is */
	_Unwind_Backtrace(warm, 0); /* the first call may take memory and locks */
	next_sigaction(SIGTRAP, &action, 0);
	pthread_atfork(0, 0, ask);
	ask();
}

/* The program may neither take the signal nor block it. */

int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
	if (!next_sigaction)
		find();
	if (number == SIGTRAP && *listener) {
		if (asks && new)
			asked = new->sa_handler;
		new = 0;
	}
	return next_sigaction(number, new, old);
}

sighandler_t signal(int number, sighandler_t handler)
{
	if (!next_signal)
		find();
	return number == SIGTRAP && *listener ? SIG_DFL : next_signal(number, handler);
}

static const sigset_t *without_trap(const sigset_t *set, sigset_t *copy)
{
	if (!set)
		return 0;
	*copy = *set;
	sigdelset(copy, SIGTRAP);
	return copy;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	if (!next_sigprocmask)
		find();
	return next_sigprocmask(how, how == SIG_UNBLOCK ? set : without_trap(set, &copy), old);
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	if (!next_pthread_sigmask)
		find();
	return next_pthread_sigmask(how, how == SIG_UNBLOCK ? set : without_trap(set, &copy), old);
}
