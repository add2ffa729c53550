// Makes code as a just-in-time compiler does, with frame pointers, and runs it for two seconds of CPU time: at another
// address each time, as a compiler makes more and more. Arguments: the memory that the code is in, and "named" for a
// perf map.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 1 << 18, STEP = 64 };

static volatile unsigned long sink;

// What Mono exports.
void mono_jit_init(void)
{
}

__attribute__((noinline)) void called(void)
{
	for (int i = 0; i < 20000; i++)
		sink += i;
}

static char *map(int file, int protection, int flags)
{
	char *at = mmap(0, SIZE, protection, flags, file, 0);
	if (at == MAP_FAILED)
		exit(2);
	return at;
}

static int file_of(const char *kind)
{
	char name[] = "/tmp/hwmakesXXXXXX";
	int file = strcmp(kind, "memfd") ? mkstemp(name) : memfd_create("doublemapper", 0);
	if (file < 0 || ftruncate(file, SIZE))
		exit(3);
	if (!strcmp(kind, "file"))
		unlink(name);
	return file;
}

int main(int argc, char **argv)
{
	// push %rbp; mov %rsp,%rbp; mov $called,%rax; call *%rax; mov $200000,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret
	unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,	   0,	 0,    0,    0,	   0,	 0,    0,
				 0xff, 0xd0, 0xb9, 0x40, 0x0d, 0x03, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };
	unsigned long to = (unsigned long)called;
	char *written, *run, name[64];
	memcpy(code + 6, &to, sizeof(to));
	if (!strcmp(argv[1], "private")) {
		written = run = map(-1, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
	} else if (!strcmp(argv[1], "shared")) {
		written = run = map(-1, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS);
	} else if (!strcmp(argv[1], "sysv")) {
		int id = shmget(IPC_PRIVATE, SIZE, 0700 | IPC_CREAT);
		written = shmat(id, 0, 0);
		run = shmat(id, 0, SHM_EXEC | SHM_RDONLY);
		shmctl(id, IPC_RMID, 0);
	} else {
		int file = file_of(argv[1]);
		written = map(file, PROT_READ | PROT_WRITE, MAP_SHARED);
		run = map(file, PROT_READ | PROT_EXEC, MAP_SHARED);
	}
	for (int at = 0; at < SIZE; at += STEP)
		memcpy(written + at, code, sizeof(code));
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
	if (argc > 2) {
		FILE *map = fopen(name, "w");
		fprintf(map, "%lx %x hwjitted\n", (unsigned long)run, SIZE);
		fclose(map);
	}
	for (int at = 0; clock() < 2 * CLOCKS_PER_SEC; at = (at + STEP) % SIZE)
		((void (*)(void))(run + at))();
	if (argc > 2)
		unlink(name);
	return 0;
}
