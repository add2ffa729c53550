import java.io.File;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;

/**
 * Loads a class again and again, each time by another name and for a short while, so that classes come to where others
 * were. The thread has the name of the class whose methods it runs.
 */
class Unload {
	static volatile Object sink;

	static class Loader extends ClassLoader {
		Class<?> define(byte[] bytes) {
			return defineClass(null, bytes, 0, bytes.length);
		}
	}

	/** Returns the class file with another number in the names. */
	static byte[] renamed(byte[] bytes, String name) {
		String text = new String(bytes, StandardCharsets.ISO_8859_1);
		return text.replace("Work0000", name).getBytes(StandardCharsets.ISO_8859_1);
	}

	public static void main(String[] arguments) throws Exception {
		byte[] bytes = Files.readAllBytes(new File(arguments[0], "Work0000.class").toPath());
		int turns = Integer.parseInt(arguments[1]);
		for (int turn = 1; turn <= turns; turn++) {
			String name = String.format("Work%04d", turn % 10_000);
			Method run = new Loader().define(renamed(bytes, name)).getDeclaredMethod("run", int.class);
			run.setAccessible(true);
			Thread.currentThread().setName(name);
			sink = run.invoke(null, turn);
			Thread.currentThread().setName("main");
			run = null;
			System.gc();
		}
		System.exit(0);
	}
}

/** What is loaded. */
class Work0000 {
	static long step(int depth, int n) {
		return depth == 0 ? leaf(n) : step(depth - 1, n) + 1;
	}

	static long leaf(int n) {
		long sum = n;
		for (int i = 0; i < 20; i++) {
			sum = sum * 31 + i;
		}
		return sum;
	}

	static long run(int turn) {
		long sum = 0;
		for (int i = 0; i < 10_000; i++) {
			sum += step(4, i);
		}
		return sum;
	}
}
