/* A 32-bit program that needs no library, and takes half a second of CPU time: no stack of it can be unwound, and the profile says so. */
static int milliseconds(void)
{
	struct {
		int seconds, nanoseconds;
	} now;
	int result;
	/* clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) */
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(265), "b"(2), "c"(&now) : "memory");
	return now.seconds * 1000 + now.nanoseconds / 1000000;
}

void _start(void)
{
	while (milliseconds() < 500)
		for (volatile int i = 0; i < 1000000; i++)
			;
	for (;;)
		__asm__ volatile("int $0x80" ::"a"(1), "b"(0));
}
