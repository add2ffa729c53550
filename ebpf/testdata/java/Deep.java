/** Calls three methods in turn, thirty times around, and then works. */
class Deep {
	static volatile long sink;

	static long work() {
		long sum = 1;
		for (int i = 0; i < 3000; i++) {
			sum = sum * 31 ^ (sum >>> 7);
		}
		return sum;
	}

	static long one(int depth) {
		return depth == 0 ? work() : two(depth) + 1;
	}

	static long two(int depth) {
		return three(depth) * 3;
	}

	static long three(int depth) {
		return one(depth - 1) ^ 5;
	}

	public static void main(String[] arguments) {
		sink = one(30);
		System.out.println("at work");
		for (;;) {
			sink += one(30);
		}
	}
}
