import java.io.File;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;

/**
 * Loads the class Work anew again and again, so that it is compiled, thrown away and compiled
 * again; catches exceptions, makes garbage, and lets the compiler believe what then turns
 * out to be wrong.
 */
class Churn {
	static volatile Object sink;

	public static void main(String[] arguments) throws Exception {
		URL[] path = {new File(arguments[0]).toURI().toURL()};
		for (int turn = 0;; turn++) {
			try (URLClassLoader loader = new URLClassLoader(path, null)) {
				Method run = loader.loadClass("Work").getDeclaredMethod("run", int.class);
				run.setAccessible(true);
				sink = run.invoke(null, turn);
			}
			if (turn % 8 == 0) {
				System.gc();
			}
		}
	}
}

/** What is loaded. */
class Work {
	interface Shape {
		long area(int n);
	}

	static class Square implements Shape {
		public long area(int n) {
			return (long) n * n;
		}
	}

	static class Circle implements Shape {
		public long area(int n) {
			if (n % 1000 == 0) {
				throw new IllegalStateException();
			}
			return new long[16].length * 3L * n;
		}
	}

	static long step(Shape shape, int depth, int n) {
		return depth == 0 ? leaf(shape, n) : step(shape, depth - 1, n) + 1;
	}

	static long leaf(Shape shape, int n) {
		try {
			return shape.area(n);
		} catch (IllegalStateException e) {
			return 0;
		}
	}

	static long run(int turn) {
		long sum = 0;
		Shape shape = new Square();
		for (int i = 0; i < 30_000; i++) {
			if (i == 20_000) {
				shape = new Circle(); // there was but one kind until now
			}
			sum += step(shape, 10, i);
		}
		return sum;
	}
}
