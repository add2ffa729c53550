/*
 * Code in memory of no file, of which some functions keep the frame pointer and some do not, as Mono makes it: between
 * calls outer, which has a frame and calls inner, which has none and calls a function of the program. The frame pointer
 * of inner leads to the caller of outer. inner returns through a jump that nobody can follow, so that only a call that
 * names it shows where it begins. With HIDDEN none does. With DIRECT, outer is called directly, else by its address.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "work.h"

extern const char between[], outer[], inner[], code_end[];

#if defined(HIDDEN)
#define CALL_INNER "call *%rdx\n"
#else
#define CALL_INNER "call inner\n"
#endif
#if defined(DIRECT)
#define CALL_OUTER "call outer\n"
#else
#define CALL_OUTER "call *%rcx\n"
#endif

__asm__(".text\n"
	"between: sub $8, %rsp\n" CALL_OUTER "add $8, %rsp\nret\n"
	"outer: push %rbp\nmov %rsp, %rbp\n" CALL_INNER "pop %rbp\nret\n"
	"inner: sub $8, %rsp\ncall *%rsi\nadd $8, %rsp\npop %rcx\njmp *%rcx\n"
	"code_end:\n");

int main(int argc, char **argv)
{
	(void)argc;
	double each = atof(argv[1]);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	memcpy(code, between, code_end - between);
	void (*run)(unsigned long, void *, void *, void *) = (void (*)(unsigned long, void *, void *, void *))code;
	FOR_SECONDS(each) run(200000, burn, (char *)code + (inner - between), (char *)code + (outer - between));
	return 0;
}
