import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.LongUnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.Deflater;

/** Does so many seconds of one kind of work: Mix KIND SECONDS. It runs on Java 8 and later. */
class Mix {
	static volatile Object sink;

	interface Work {
		Object run(int n) throws Exception;
	}

	static Object streams(int n) {
		return IntStream.range(0, 20_000).filter(i -> i % 3 != n % 3).mapToObj(Integer::toString)
			.collect(Collectors.groupingBy(String::length, Collectors.counting()));
	}

	static final Pattern WORD = Pattern.compile("(?<first>\\w)(\\w+)?\\s+(river|sea|head(water)?)");

	static Object patterns(int n) {
		String line = "the river runs to the sea and the headwater is where it begins ";
		Matcher words = WORD.matcher(String.join("", Collections.nCopies(40 + n % 7, line)));
		int found = 0;
		while (words.find()) found++;
		return found;
	}

	static Object sorting(int n) {
		List<String> words = new ArrayList<>();
		for (int i = 0; i < 5000; i++) {
			words.add(Integer.toHexString(i * 0x9e3779b1 + n));
		}
		words.sort((a, b) -> a.length() != b.length() ? a.length() - b.length() : a.compareTo(b));
		return words.get(n % words.size());
	}

	static int descend(int depth, int n) {
		if (depth == 0) {
			if (n % 2 == 0) throw new IllegalStateException("" + n);
			return n;
		}
		try {
			return descend(depth - 1, n) + 1;
		} finally {
			sink = depth;
		}
	}

	static Object exceptions(int n) {
		int caught = 0;
		for (int i = 0; i < 200; i++) {
			try {
				caught += descend(i % 60, n + i);
			} catch (IllegalStateException e) {
				caught += e.getStackTrace().length;
			}
		}
		return caught;
	}

	static Object numbers(int n) throws Exception {
		BigInteger x = BigInteger.valueOf(2).pow(521).subtract(BigInteger.valueOf(n));
		Deflater d = new Deflater();
		d.setInput(x.modPow(BigInteger.valueOf(65537), BigInteger.TEN.pow(90)).toByteArray());
		d.finish();
		byte[] out = new byte[1 << 12];
		d.deflate(out);
		d.end();
		return MessageDigest.getInstance("SHA-256").digest(out)[0];
	}

	static LongUnaryOperator chain(int length) {
		LongUnaryOperator f = LongUnaryOperator.identity();
		for (int i = 0; i < length; i++) {
			int k = i;
			f = k % 2 == 0 ? f.andThen(x -> x * 31 + k) : f.compose(x -> x ^ x >>> 7);
		}
		return f;
	}

	static final LongUnaryOperator CHAIN = chain(24);

	static Object lambdas(int n) {
		long x = n;
		for (int i = 0; i < 5000; i++) {
			x = CHAIN.applyAsLong(x);
		}
		return x;
	}

	static Object reflection(int n) throws Exception {
		Method method = Mix.class.getDeclaredMethod("descend", int.class, int.class);
		int sum = 0;
		for (int i = 0; i < 500; i++) {
			sum += (Integer) method.invoke(null, i % 20, 1);
		}
		return sum;
	}

	static Object threads(int n) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(8);
		List<Callable<Object>> all = new ArrayList<>();
		for (int i = 0; i < 64; i++) {
			int k = i;
			all.add(() -> sorting(k));
		}
		int done = pool.invokeAll(all).size();
		pool.shutdown();
		return done;
	}

	static HttpServer server;

	static synchronized Object http(int n) throws Exception {
		if (server == null) {
			System.setProperty("sun.net.httpserver.nodelay", "true");
			server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
			server.createContext("/", x -> {
				byte[] body = Arrays.toString(new int[200]).getBytes(StandardCharsets.UTF_8);
				x.sendResponseHeaders(200, body.length);
				x.getResponseBody().write(body);
				x.close();
			});
			ExecutorService threads = Executors.newFixedThreadPool(4, r -> {
				Thread t = new Thread(r);
				t.setDaemon(true);
				return t;
			});
			server.setExecutor(threads);
			server.start();
		}
		URL page = new URL("http://127.0.0.1:" + server.getAddress().getPort() + "/" + n);
		try (InputStream body = page.openConnection().getInputStream()) {
			byte[] read = new byte[4096];
			int length = 0;
			for (int got; (got = body.read(read)) >= 0; length += got);
			return length;
		}
	}

	static Work work(String name) {
		switch (name) { // as Java 8 has it
			case "streams": return Mix::streams;
			case "patterns": return Mix::patterns;
			case "sorting": return Mix::sorting;
			case "exceptions": return Mix::exceptions;
			case "numbers": return Mix::numbers;
			case "lambdas": return Mix::lambdas;
			case "reflection": return Mix::reflection;
			case "threads": return Mix::threads;
			case "http": return Mix::http;
			default: throw new IllegalArgumentException(name);
		}
	}

	public static void main(String[] arguments) throws Exception {
		Work work = work(arguments[0]);
		long end = System.nanoTime() + Long.parseLong(arguments[1]) * 1_000_000_000L;
		for (int n = 0; System.nanoTime() < end; n++) {
			sink = work.run(n);
		}
		System.exit(0);
	}
}
