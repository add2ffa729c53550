/* Loads a library twice, the second time in a namespace of its own, and calls both. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "work.h"

typedef unsigned long function(unsigned long);

FRAME unsigned long first(function *f, unsigned long n) { return f(n) + 1; }
FRAME unsigned long second(function *f, unsigned long n) { return f(n) + 2; }

int main(int argc, char **argv)
{
	(void)argc;
	void *one = dlopen("libtwice.so", RTLD_NOW), *two = dlmopen(LM_ID_NEWLM, "libtwice.so", RTLD_NOW);
	if (!one || !two)
		return 1;
	function *a = (function *)dlsym(one, "work"), *b = (function *)dlsym(two, "work");
	unsigned long sum = 0;
	if (a == b)
		return 1;
	FOR_SECONDS(atof(argv[1])) sum += first(a, 200000);
	FOR_SECONDS(atof(argv[1])) sum += second(b, 200000);
	return sum == 42;
}
