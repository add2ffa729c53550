/*
 * A library to be preloaded into Java VMs and loaded as their agent: it answers each SIGTRAP of a perf event with
 * what HotSpot's AsyncGetCallTrace finds at the interrupted instruction. integration/lab/instant compiles it, opens the
 * events and reads the records.
 *
 * Each process connects to the socket in $HEADWATER_INSTANT: who listens there opens the event of that process, and
 * answers with a byte. Records go to a file in the folder of the socket; when the VM ends, the names of the methods in
 * them go to a second one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <jvmti.h>

enum {
	MAX_FRAMES = 2048,
	CODE_BYTES = 16, /* more than an instruction has */
	PAGE = 4096,
	FILE_BYTES = 256 << 20, /* sparse */
};

/* As HotSpot's forte.cpp has them. */
struct call_frame {
	jint bci; /* -3: a native method */
	jmethodID method;
};

struct call_trace {
	JNIEnv *environment;
	jint frames; /* or why there are none: 0 or less */
	struct call_frame *frame;
};

struct frame {
	uint64_t method;
	int64_t bci;
};

struct record {
	uint64_t bytes; /* of the record with the room after it */
	uint32_t pid, tid;
	uint64_t entered, left; /* CLOCK_MONOTONIC, ns; left is 0 until the record is whole */
	uint64_t pc, sp;
	int64_t frames; /* or why there are none */
	uint8_t code[CODE_BYTES]; /* at pc, or zero behind the page */
	struct frame frame[];
};

struct shared {
	uint64_t next;	  /* offset of the next record */
	uint64_t late;	  /* signals that came after their instant, because they were blocked */
	uint64_t dropped; /* there was no room */
};

static struct shared *shared;
static char listener[sizeof(((struct sockaddr_un *)0)->sun_path)];
static char records[sizeof(listener) + 64];
static JavaVM *vm;
static void (*async_get_call_trace)(struct call_trace *, jint, void *);
static volatile int ready; /* the VM has begun, and not ended */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* siginfo_t of a perf event, whose last fields glibc does not name: see linux/siginfo.h. */
struct perf_signal {
	int signo, error, code, pad;
	void *address;
	unsigned long data;
	uint32_t type, flags;
};

static __thread struct call_frame found[MAX_FRAMES] __attribute__((tls_model("initial-exec")));

static void on_trap(int number, siginfo_t *info, void *context)
{
	enum { PERF = 6, LATE = 1 }; /* TRAP_PERF, TRAP_PERF_FLAG_ASYNC */
	const struct perf_signal *signal = (const void *)info;
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	struct call_trace trace = {.frame = found};
	uint64_t entered = now();
	int error = errno;

	(void)number;
	if (signal->code != PERF || !ready || (*vm)->GetEnv(vm, (void **)&trace.environment, JNI_VERSION_1_6))
		return; /* or a thread that is not Java's */
	if (signal->flags & LATE) {
		__atomic_add_fetch(&shared->late, 1, __ATOMIC_RELAXED);
		return;
	}
	async_get_call_trace(&trace, MAX_FRAMES, context);
	uint64_t bytes = sizeof(struct record) + (trace.frames > 0 ? trace.frames : 0) * sizeof(struct frame);
	uint64_t at = __atomic_fetch_add(&shared->next, bytes, __ATOMIC_ACQ_REL);
	if (at + bytes > FILE_BYTES) {
		__atomic_add_fetch(&shared->dropped, 1, __ATOMIC_RELAXED);
		return;
	}
	struct record *r = (struct record *)((char *)shared + at);
	r->bytes = bytes;
	r->pid = getpid();
	r->tid = syscall(SYS_gettid);
	r->entered = entered;
	r->pc = registers[REG_RIP];
	r->sp = registers[REG_RSP];
	r->frames = trace.frames;
	uint64_t left = PAGE - r->pc % PAGE;
	memcpy(r->code, (const void *)r->pc, left < CODE_BYTES ? left : CODE_BYTES);
	for (int i = 0; i < trace.frames; i++)
		r->frame[i] = (struct frame){(uint64_t)found[i].method, found[i].bci};
	r->left = now();
	errno = error;
}

static void take_signal(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	sigaction(SIGTRAP, &action, 0);
}

/* Makes the file of this process and asks for its event, while it has one thread. */
static __attribute__((constructor)) void begin(void)
{
	const char *to = getenv("HEADWATER_INSTANT");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char program[PATH_MAX] = "", answer;

	if (!to || strlen(to) >= sizeof(listener) || readlink("/proc/self/exe", program, sizeof(program) - 1) < 0 ||
	    strcmp(strrchr(program, '/'), "/java"))
		return;
	strcpy(listener, to);
	strcpy(address.sun_path, to);
	snprintf(records, sizeof(records), "%s.%d", listener, getpid());
	int file = open(records, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (file < 0)
		return;
	void *memory = ftruncate(file, FILE_BYTES) ? MAP_FAILED : mmap(0, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (memory == MAP_FAILED)
		return;
	shared = memory;
	shared->next = sizeof(*shared);
	take_signal();
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s >= 0 && !connect(s, (struct sockaddr *)&address, sizeof(address)))
		(void)!read(s, &answer, 1);
	if (s >= 0)
		close(s);
}

/* AsyncGetCallTrace knows methods that have an ID only. */
static void JNICALL prepared(jvmtiEnv *jvmti, JNIEnv *environment, jthread thread, jclass class)
{
	jint count;
	jmethodID *methods;

	(void)environment, (void)thread;
	if (!(*jvmti)->GetClassMethods(jvmti, class, &count, &methods))
		(*jvmti)->Deallocate(jvmti, (unsigned char *)methods);
}

static void JNICALL loaded(jvmtiEnv *jvmti, JNIEnv *environment, jthread thread, jclass class)
{
	(void)jvmti, (void)environment, (void)thread, (void)class; /* the event must be on for AsyncGetCallTrace */
}

static void JNICALL begun(jvmtiEnv *jvmti, JNIEnv *environment, jthread thread)
{
	jint count;
	jclass *classes;

	if ((*jvmti)->GetLoadedClasses(jvmti, &count, &classes))
		return;
	for (jint i = 0; i < count; i++)
		prepared(jvmti, environment, thread, classes[i]);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)classes);
	take_signal();
	ready = shared && async_get_call_trace;
}

/* Writes what a method is called, and its lines: ID, class, name, file, then "bytecode:line" each. */
static void describe(jvmtiEnv *jvmti, JNIEnv *environment, FILE *out, jmethodID method)
{
	char *name = 0, *signature = 0, *file = 0;
	jclass class;
	jint count = 0;
	jvmtiLineNumberEntry *lines = 0;

	if ((*jvmti)->GetMethodName(jvmti, method, &name, 0, 0) || (*jvmti)->GetMethodDeclaringClass(jvmti, method, &class) ||
	    (*jvmti)->GetClassSignature(jvmti, class, &signature, 0))
		return;
	(*jvmti)->GetSourceFileName(jvmti, class, &file);
	(*jvmti)->GetLineNumberTable(jvmti, method, &count, &lines);
	fprintf(out, "%llx\t%s\t%s\t%s", (unsigned long long)(uintptr_t)method, signature, name, file ? file : "");
	for (jint i = 0; lines && i < count; i++)
		fprintf(out, "\t%lld:%d", (long long)lines[i].start_location, lines[i].line_number);
	fputc('\n', out);
	(*environment)->DeleteLocalRef(environment, class);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void JNICALL ended(jvmtiEnv *jvmti, JNIEnv *environment)
{
	char path[sizeof(records) + 16];
	uint64_t end = shared->next < FILE_BYTES ? shared->next : FILE_BYTES, count = 0;
	uint64_t *methods = malloc(end); /* a record has more bytes than its methods */

	ready = 0;
	snprintf(path, sizeof(path), "%s.methods", records);
	FILE *out = fopen(path, "w");
	if (!methods || !out)
		return;
	for (uint64_t at = sizeof(*shared); at + sizeof(struct record) <= end;) {
		struct record *r = (struct record *)((char *)shared + at);
		if (!r->bytes)
			break;
		for (int64_t i = 0; r->left && i < r->frames; i++)
			methods[count++] = r->frame[i].method;
		at += r->bytes;
	}
	qsort(methods, count, sizeof(*methods), by_value);
	for (uint64_t i = 0; i < count; i++)
		if (methods[i] && (!i || methods[i] != methods[i - 1]))
			describe(jvmti, environment, out, (jmethodID)methods[i]);
	fclose(out);
	free(methods);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *java, char *options, void *reserved)
{
	jvmtiEnv *jvmti;
	jvmtiCapabilities wanted = {.can_get_line_numbers = 1, .can_get_source_file_name = 1};
	jvmtiEventCallbacks events = {.VMInit = begun, .VMDeath = ended, .ClassLoad = loaded, .ClassPrepare = prepared};
	const jvmtiEvent kinds[] = {JVMTI_EVENT_VM_INIT, JVMTI_EVENT_VM_DEATH, JVMTI_EVENT_CLASS_LOAD, JVMTI_EVENT_CLASS_PREPARE};

	(void)options, (void)reserved;
	vm = java;
	if (!shared)
		return 0; /* another program than was to be looked at */
	async_get_call_trace = dlsym(RTLD_DEFAULT, "AsyncGetCallTrace");
	if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) || (*jvmti)->AddCapabilities(jvmti, &wanted) ||
	    (*jvmti)->SetEventCallbacks(jvmti, &events, sizeof(events)))
		return 1;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if ((*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, kinds[i], 0))
			return 1;
	return 0;
}
