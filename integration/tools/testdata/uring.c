// Reads a file by io_uring for a second, by the kernel's worker threads, and prints how often.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { AT_A_TIME = 8, SIZE = 1 << 20, BLOCKS = 16 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static char *map(int ring, size_t size, off_t at)
{
	char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, at);
	if (p == MAP_FAILED)
		exit(4);
	return p;
}

__attribute__((noinline)) int reads(int file, double end)
{
	struct io_uring_params p = { 0 };
	int ring = syscall(SYS_io_uring_setup, 2 * AT_A_TIME, &p), n = 0;
	if (ring < 0)
		exit(3); // not allowed here
	char *sq = map(ring, p.sq_off.array + p.sq_entries * sizeof(int), IORING_OFF_SQ_RING);
	char *cq = map(ring, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	struct io_uring_sqe *entries = (void *)map(ring, p.sq_entries * sizeof(*entries), IORING_OFF_SQES);
	unsigned *tail = (void *)(sq + p.sq_off.tail), mask = *(unsigned *)(sq + p.sq_off.ring_mask);
	unsigned *array = (void *)(sq + p.sq_off.array);
	unsigned *head = (void *)(cq + p.cq_off.head), *done = (void *)(cq + p.cq_off.tail);
	char *to = malloc(SIZE);
	while (now() < end) {
		for (int i = 0; i < AT_A_TIME; i++, n++) {
			unsigned at = *tail & mask;
			entries[at] = (struct io_uring_sqe){ .opcode = IORING_OP_READ, .flags = IOSQE_ASYNC, .fd = file,
							     .addr = (unsigned long)to, .len = SIZE,
							     .off = (unsigned long)(n % BLOCKS) * SIZE };
			array[at] = at;
			__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		}
		syscall(SYS_io_uring_enter, ring, AT_A_TIME, AT_A_TIME, IORING_ENTER_GETEVENTS, 0, 0);
		__atomic_store_n(head, __atomic_load_n(done, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	}
	return n;
}

int main(void)
{
	char name[] = "/tmp/hwuringXXXXXX";
	int file = mkstemp(name);
	if (file < 0 || ftruncate(file, BLOCKS * SIZE))
		return 2;
	unlink(name);
	printf("%d\n", reads(file, now() + 1));
	return 0;
}
