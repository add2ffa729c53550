/* Loads a library and calls 2,000 functions through it, each for the first time: the dynamic linker binds them. */
#include <dlfcn.h>

#include "work.h"

FRAME int turn(void)
{
	void *library = dlopen("libcalls.so", RTLD_LAZY);
	if (!library)
		return 0;
	unsigned long (*call_all)(void) = (unsigned long (*)(void))dlsym(library, "call_all");
	return call_all() + dlclose(library) == 2000;
}

int main(int argc, char **argv)
{
	(void)argc;
	time_t end = deadline(argv);
	int all = 1;
	while (time(NULL) < end)
		all &= turn();
	return !all;
}
