/* Waits for a byte, then calls functions whose int leaves the upper half of its register undefined. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* half returns n, or -1 where n is 3, as an int: the upper half of rax keeps bits of something else. */
__asm__(".globl half\n.type half, @function\n"
	"half:\n\tmovabs $0x7fff00000000, %rax\n\tor %rdi, %rax\n\tcmp $3, %edi\n\tjne 1f\n\tmovabs $0x7fffffffffff, %rax\n"
	"1:\n\tret\n.size half, .-half\n");
int half(long n);

int main(int argc, char **argv)
{
	int calls = argc > 1 ? atoi(argv[1]) : 0;
	long sum = 0;
	char c;

	if (read(0, &c, 1) != 1)
		return 1;
	for (int i = 0; i < calls; i++) {
		int got = half(i % 10);
		if (got > 0)
			sum += got;
		if (i % 10 == 9)
			usleep(20000);
	}
	printf("%ld\n", sum);
	return 0;
}
