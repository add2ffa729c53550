// Burns CPU below a method of a template, called through a virtual function and from a catch block.
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <vector>

namespace water {

struct Machine {
	virtual ~Machine() = default;
	virtual double run(const std::vector<double> &) = 0;
};

template <typename Number> struct Mill : Machine {
	__attribute__((noipa)) Number turn(Number from, unsigned long rounds)
	{
		volatile Number sum = from;
		for (unsigned long i = 0; i < rounds; i++)
			sum = sum + i * i;
		return sum;
	}
	__attribute__((noipa)) double run(const std::vector<double> &input) override
	{
		try {
			throw std::out_of_range("the river is low");
		} catch (const std::exception &) {
			return turn(input.at(0), 20000000);
		}
	}
};

} // namespace water

int main(int argc, char **argv)
{
	clock_t end = clock() + (argc > 1 ? atof(argv[1]) : 1) * CLOCKS_PER_SEC;
	water::Machine *machine = new water::Mill<double>;
	double sum = 0;
	while (clock() < end)
		sum += machine->run({1.0});
	delete machine;
	return sum == 42;
}
