/* A program that reads memory that is not there, while another thread waits. */
#include <pthread.h>
#include <unistd.h>

static void *wait_here(void *unused)
{
	pause();
	return unused;
}

__attribute__((noipa)) static int read_from(const int *address)
{
	return *address + 1;
}

__attribute__((noipa)) static int crash(long address)
{
	return read_from((const int *)address) + 2;
}

int main(int argc, char **argv)
{
	pthread_t waiter;

	(void)argv;
	pthread_create(&waiter, NULL, wait_here, NULL);
	usleep(10000);
	return crash(0x30L * argc) + 1;
}
