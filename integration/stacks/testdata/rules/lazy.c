/*
 * Loads a library and calls 2,000 functions through it, each for the first time: the dynamic linker binds them. The seconds are those of the calls:
 * those of loading come on top.
 */
#include <dlfcn.h>

#include "work.h"

/* Adds to the seconds of the calls. */
FRAME int turn(double *seconds)
{
	void *library = dlopen("libcalls.so", RTLD_LAZY);
	if (!library)
		return 0;
	unsigned long (*call_all)(void) = (unsigned long (*)(void))dlsym(library, "call_all");
	double begin = cpu_time();
	unsigned long called = call_all();
	*seconds += cpu_time() - begin;
	return called + dlclose(library) == 2000;
}

int main(int argc, char **argv)
{
	(void)argc;
	int all = 1;
	for (double seconds = 0; seconds < atof(argv[1]);)
		all &= turn(&seconds);
	return !all;
}
