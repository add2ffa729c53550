// Does a little of everything, over and over, so that there are hundreds of different stacks: containers, sorting by a callback,
// printing, exceptions, recursion, variable-length arrays and regular expressions.
#include <alloca.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

__attribute__((noipa)) static unsigned long sorted(unsigned seed)
{
	char *texts[300], *p = (char *)alloca(300 * 16);
	for (int i = 0; i < 300; i++, p += 16) {
		snprintf(p, 16, "%08x", (i * 2654435761u) ^ seed);
		texts[i] = p;
	}
	qsort(texts, 300, sizeof(*texts), by_text);
	return strtoul(texts[0], nullptr, 16);
}

__attribute__((noipa)) static unsigned long counted(unsigned seed)
{
	std::map<std::string, int> counts;
	for (unsigned i = 0; i < 300; i++)
		counts[std::to_string((i * 7919u + seed) % 101)]++;
	std::vector<std::pair<std::string, int>> all(counts.begin(), counts.end());
	std::sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.second != b.second ? a.second < b.second : a.first < b.first; });
	return all.front().second;
}

__attribute__((noipa)) static unsigned long deep(unsigned n)
{
	volatile char room[64];
	room[n % 64] = n;
	if (n == 0)
		throw std::runtime_error("the spring");
	return deep(n - 1) + room[n % 64];
}

__attribute__((noipa)) static unsigned long thrown(void)
{
	unsigned long caught = 0;
	for (unsigned n = 1; n < 12; n++) {
		try {
			deep(n);
		} catch (const std::exception &e) {
			caught += strlen(e.what());
		}
	}
	return caught;
}

__attribute__((noipa)) static unsigned long matched(void)
{
	static const std::regex words("(\\w+)ing\\b");
	static const std::string text = "the river is running and falling and turning until the evening";
	return std::distance(std::sregex_iterator(text.begin(), text.end(), words), std::sregex_iterator());
}

int main(int argc, char **argv)
{
	time_t end = time(nullptr) + (argc > 1 ? atol(argv[1]) : 1);
	unsigned long sum = 0;
	for (unsigned turn = 0; time(nullptr) < end; turn++)
		sum += sorted(turn) + counted(turn) + thrown() + matched();
	return sum == 42;
}
