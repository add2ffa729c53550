// A library whose code needs no data, so that it may be mapped at the place of another one. NAME(x) begins with the
// letters of the library; PAD makes frames of another size.
static __attribute__((noinline)) void NAME(burn)(void)
{
	for (volatile int i = 0; i < 20000; i++)
		;
}

static __attribute__((noinline)) void NAME(work)(void)
{
#ifdef PAD
	char room[72];
	__asm__ volatile("" ::"r"(room) : "memory");
#endif
	NAME(burn)();
	__asm__ volatile("");
}

__attribute__((aligned(4096))) void run(int n) // the code has more than one page
{
	for (int i = 0; i < n; i++) {
		NAME(work)();
		__asm__ volatile("");
	}
}
