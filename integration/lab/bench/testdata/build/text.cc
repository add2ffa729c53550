// Regular expressions and streams, for a compiler to work on.
#include <iostream>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

struct Word { std::string text; };
struct Number { double value; };
struct List;
using Value = std::variant<Word, Number, std::shared_ptr<List>>;
struct List { std::vector<Value> values; };

static Value parse(std::istringstream &in)
{
	static const std::regex number(R"(-?\d+(\.\d+)?(e[+-]?\d+)?)");
	auto list = std::make_shared<List>();
	for (std::string word; in >> word && word != ")";) {
		if (word == "(")
			list->values.push_back(parse(in));
		else if (std::regex_match(word, number))
			list->values.push_back(Number{std::stod(word)});
		else
			list->values.push_back(Word{std::regex_replace(word, std::regex("[aeiou]+"), "*")});
	}
	return list;
}

struct Printer {
	std::ostream &out;
	void operator()(const Word &w) const { out << w.text << ' '; }
	void operator()(const Number &n) const { out << n.value << ' '; }
	void operator()(const std::shared_ptr<List> &l) const
	{
		out << "( ";
		for (const auto &v : l->values)
			std::visit(*this, v);
		out << ") ";
	}
};

int main(int argc, char **argv)
{
	std::istringstream in(argc > 1 ? argv[1] : "( one 2 ( three 4.5e1 ) )");
	std::visit(Printer{std::cout}, parse(in));
}
