// Templates of the standard library, for a compiler to work on.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

template <int N> struct Index {
	std::map<std::string, std::vector<std::pair<int, std::string>>> by_name;
	std::unordered_map<std::string, std::set<int>> by_word;

	void add(int id, const std::string &text)
	{
		std::size_t from = 0;
		for (std::size_t to; (to = text.find(' ', from)) != std::string::npos; from = to + 1)
			by_word[text.substr(from, to - from)].insert(id * N);
		by_name[text].emplace_back(id, text);
	}

	int total() const
	{
		std::vector<int> sums;
		for (const auto &[name, entries] : by_name)
			sums.push_back(std::accumulate(entries.begin(), entries.end(), N, [](int sum, const auto &e) { return sum + e.first; }));
		std::stable_sort(sums.begin(), sums.end(), std::greater<>());
		return sums.empty() ? 0 : sums.front();
	}
};

template <int N> int fill(const std::string &text)
{
	Index<N> index;
	for (int i = 0; i < N; i++)
		index.add(i, text);
	if constexpr (N > 1)
		return index.total() + fill<N - 1>(text);
	return index.total();
}

int containers(const std::string &text) { return fill<12>(text); }
