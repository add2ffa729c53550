// Spends its time in functions of known names, which call each other; argument: rounds.
#include <cstdio>
#include <cstdlib>

namespace shop {

static volatile unsigned sink;

#define WORK(name, weight) \
	__attribute__((noinline)) void name(unsigned n) \
	{ \
		unsigned sum = n; \
		for (unsigned i = 0; i < n * weight; i++) \
			sum = sum * 1664525 + 1013904223; \
		sink = sum; \
	}

WORK(parse, 10)
WORK(check, 5)
WORK(price, 20)
WORK(store, 3)
WORK(reply, 2)

// sortOrders has two branches, one of them rare.
__attribute__((noinline)) unsigned sortOrders(const unsigned *orders, int n)
{
	unsigned sum = 0;
	for (int i = 0; i < n; i++)
		if (orders[i] % 64 == 0)
			sum ^= orders[i] * 7;
		else
			sum += orders[i] >> 3;
	return sum;
}

__attribute__((noinline)) void handle(const unsigned *orders, int n)
{
	parse(2000);
	check(2000);
	price(2000);
	store(2000);
	reply(2000);
	for (int i = 0; i < 20; i++)
		sink = sortOrders(orders, n);
}

} // namespace shop

int main(int count, char **arguments)
{
	static unsigned orders[2000];
	for (int i = 0; i < 2000; i++)
		orders[i] = i * 2654435761u;
	int rounds = count > 1 ? atoi(arguments[1]) : 1000;
	for (int i = 0; i < rounds; i++)
		shop::handle(orders, 2000);
	printf("done\n");
}
