/** Works at four sites: one in a, one in b, which a calls, and two in c, which b calls; prints first where those are. */
class Inline {
	static volatile long sink;
	static int stop;

	static long a(long x, int n) {
		for (int i = 0; i < n; i++) x = work(x, i, 1);
		return b(x, n) + 1;
	}

	static long b(long x, int n) {
		for (int i = 0; i < 2 * n; i++) x = work(x, i, 2);
		return c(x,
			n) ^ 5;
	}

	static long c(long x, int n) {
		for (int i = 0; i < n; i++) x = work(x, i, 3);
		for (int i = 0; i < 3 * n; i++) x = work(x, i, 4);
		return x;
	}

	static long work(long x, int i, int site) {
		return site == stop ? fail() : x * 31 + i ^ (x >>> 7);
	}

	static long fail() {
		throw new IllegalStateException();
	}

	static long call(long x) {
		return a(x, 3000);
	}

	public static void main(String[] arguments) {
		for (stop = 1; stop <= 4; stop++) {
			try {
				call(1);
			} catch (IllegalStateException e) {
				for (StackTraceElement f : e.getStackTrace()) {
					System.out.println(f.getClassName() + "." + f.getMethodName() + " " + f.getFileName() + ":" + f.getLineNumber());
				}
			}
		}
		System.out.println("at work");
		for (;;) {
			sink += call(sink);
		}
	}
}
