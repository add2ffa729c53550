// Templates fills maps and sorts vectors through templates and lambdas for some seconds.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace {
template <class Key, class Value> struct Table {
	std::map<Key, Value> entries;

	void put(const Key &key, Value value) { entries[key] += value; }

	template <class Function> Value fold(Function function) const
	{
		Value result{};
		for (const auto &entry : entries)
			result = function(result, entry.second);
		return result;
	}
};

template <class T> __attribute__((noinline)) T middle(std::vector<T> values)
{
	std::sort(values.begin(), values.end(), [](const T &a, const T &b) { return b < a; });
	return values[values.size() / 2];
}
} // namespace

int main(int argc, char **argv)
{
	time_t end = time(nullptr) + (argc > 1 ? atol(argv[1]) : 1);
	unsigned seed = 1;
	long sum = 0;
	while (time(nullptr) < end) {
		Table<std::string, long> table;
		std::vector<double> numbers;
		for (int i = 0; i < 2000; i++) {
			seed = seed * 1103515245 + 12345;
			table.put(std::to_string(seed >> 20), i);
			numbers.push_back(seed);
		}
		sum += table.fold([](long a, long b) { return a + b; }) + long(middle(numbers));
	}
	return sum == 42;
}
