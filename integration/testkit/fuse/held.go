package fuse

// Held is a program that is busy in code outside any file, and whose memory blocks readers: the pages after that code
// by userfaultfd(2), or, with a library and a file as arguments, the library's description of itself, which the program
// maps from that file when it receives SIGUSR1.
const Held = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL

/* Saves a register, puts 1 into the frame pointer, counts down its argument. */
#if defined(__x86_64__)
static const unsigned char code[] = {0x55, 0xbd, 1, 0, 0, 0, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};
#elif defined(__aarch64__)
static const unsigned char code[] = {0, 4, 0, 0xf1, 0xe1, 0xff, 0xff, 0x54, 0xc0, 3, 0x5f, 0xd6};
#endif

static void hold(char *at, size_t size)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)at, size}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		exit(1);
}

static void say_ready(void)
{
	if (write(1, "x", 1) != 1)
		exit(1);
}

static void cover(const char *library, const char *file)
{
	int fd = open(file, O_RDONLY), number;
	void *description = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	if (description == MAP_FAILED || sigprocmask(SIG_BLOCK, &signals, NULL))
		exit(1);
	close(fd); /* later that would wait for an answer, too */
	say_ready();
	if (sigwait(&signals, &number))
		exit(1);
	void *handle = dlopen(library, RTLD_NOW);
	char *at = handle ? dlsym(handle, "gHotSpotVMStructEntryTypeNameOffset") : NULL;
	if (!at || mremap(description, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
		exit(1);
}

int main(int argc, char **argv)
{
	char *at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return 1;
	memcpy(at + PAGE - 64, code, sizeof code);
	__builtin___clear_cache(at + PAGE - 64, at + PAGE);
	if (argc > 2) {
		cover(argv[1], argv[2]);
	} else {
		hold(at, 4 * PAGE); /* the first page is there */
		say_ready();
	}
	for (;;)
		((void (*)(unsigned long))(at + PAGE - 64))(1000000);
}
`

// HeldLibrary looks like the library of a Java VM. Its description has its own pages.
const HeldLibrary = `
__attribute__((aligned(65536))) unsigned long gHotSpotVMStructEntryTypeNameOffset[8192] = {1};
int code(void) { return 1; }
`
