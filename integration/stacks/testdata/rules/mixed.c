/*
 * Code in memory of no file, of which some functions keep the frame pointer and some do not, as Mono makes it: outer has
 * a frame and calls inner, which has none and calls a function of the program. The frame pointer of inner leads to main.
 * inner returns through a jump that nobody can follow.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "work.h"

extern const char outer[], outer_end[];

__asm__(".text\n"
	"outer:\n"
	"push %rbp\nmov %rsp, %rbp\n"
	"call 1f\n"
	"pop %rbp\nret\n"
	"1: sub $8, %rsp\n" /* inner */
	"call *%rsi\n"
	"add $8, %rsp\npop %rcx\njmp *%rcx\n"
	"outer_end:\n");

int main(int argc, char **argv)
{
	(void)argc;
	double each = atof(argv[1]);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	memcpy(code, outer, outer_end - outer);
	void (*run)(unsigned long, void *) = (void (*)(unsigned long, void *))code;
	FOR_SECONDS(each) run(200000, burn);
	return 0;
}
