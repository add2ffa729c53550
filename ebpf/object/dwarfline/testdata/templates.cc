// Templates, lambdas, and functions that no other file can call.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {
template <class T>
struct Total {
	T value{};
	void add(const T &other) { value += other; }
};

int hidden(int x)
{
	return x * 3 + 1;
}
} // namespace

template <class Key, class Value>
struct Table {
	std::map<Key, Value> entries;

	void put(Key key, Value value) { entries[key] = value; }

	template <class Function>
	Value fold(Function function) const
	{
		Value result{};
		for (const auto &entry : entries)
			result = function(result, entry.second);
		return result;
	}
};

int main(int argc, char **argv)
{
	Table<std::string, int> table;
	for (int i = 0; i < argc * 100; i++)
		table.put(argv[0] + std::to_string(hidden(i)), i);
	Total<double> total;
	std::vector<int> values;
	for (const auto &entry : table.entries) {
		total.add(entry.second);
		values.push_back(entry.second);
	}
	std::sort(values.begin(), values.end(), [](int a, int b) { return a % 7 < b % 7; });
	std::function<int(int, int)> plus = [](int a, int b) { return a + b; };
	std::cout << table.fold(plus) << " " << total.value << " " << values[0] << "\n";
}
