/* A thread that waits in four ways, each for a share of the time, and two that keep one CPU busy between them. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define WAY __attribute__((noinline)) static void
#define END __asm__ volatile("" ::: "memory")

static int epoll_fd;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

WAY way_sleep(void)
{
	usleep(45000);
	END;
}

WAY way_epoll(void)
{
	struct epoll_event e;

	epoll_wait(epoll_fd, &e, 1, 30);
	END;
}

WAY way_lock(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 30000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&never, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	END;
}

WAY way_poll(void)
{
	poll(0, 0, 15);
	END;
}

/* Two of these share a CPU: each is queued for it half of the time. */
static void *busy(void *cpus)
{
	sched_setaffinity(0, sizeof(cpu_set_t), cpus);
	for (;;)
		END;
}

int main(void)
{
	static cpu_set_t allowed, one;
	pthread_t thread;
	int cpu = 0;

	epoll_fd = epoll_create1(0);
	sched_getaffinity(0, sizeof(allowed), &allowed);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_SET(cpu, &one);
	pthread_create(&thread, 0, busy, &one);
	pthread_create(&thread, 0, busy, &one);
	for (;;) {
		way_sleep();
		way_epoll();
		way_lock();
		way_poll();
	}
}
