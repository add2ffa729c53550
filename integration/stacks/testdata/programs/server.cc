// A server of fifty threads that wait in four ways, each below some frames of its own.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::mutex mutex;
static std::condition_variable never;

struct Worker {
	int number;

	__attribute__((noinline)) void serve(int depth)
	{
		if (depth)
			serve(depth - 1);
		else
			wait();
		asm volatile("" ::: "memory");
	}

	void wait()
	{
		std::unique_lock<std::mutex> lock(mutex);
		if (number % 4 == 0) {
			never.wait(lock);
			return;
		}
		lock.unlock();
		if (number % 4 == 1) {
			sleep(10000);
		} else if (number % 4 == 2) {
			poll(nullptr, 0, -1);
		} else {
			int pair[2];
			char byte;

			if (!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && read(pair[0], &byte, 1))
				return;
		}
	}
};

int main()
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 50; i++)
		threads.emplace_back([i] {
			Worker worker{i};
			std::function<void()> run = [&] { worker.serve(i % 20); };
			run();
		});
	for (auto &thread : threads)
		thread.join();
}
