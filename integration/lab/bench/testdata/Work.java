import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/** Burns CPU for a number of seconds: warms up, is compiled, calls itself, allocates. */
class Work {
    interface Shape { double area(); }
    record Square(double side) implements Shape { public double area() { return side * side; } }
    record Circle(double radius) implements Shape { public double area() { return Math.PI * radius * radius; } }

    static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

    static double areas(int n) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            Shape shape = i % 3 == 0 ? new Square(i) : new Circle(i);
            sum += shape.area();
        }
        return sum;
    }

    static int words(String text) {
        Map<String, Integer> count = new TreeMap<>();
        for (String word : text.split(" ")) count.merge(word, 1, Integer::sum);
        return new HashMap<>(count).hashCode();
    }

    public static void main(String[] arguments) {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
        String text = "the river runs to the sea and the headwater is where it begins ".repeat(300);
        double result = 0;
        while (System.nanoTime() < end) result += fibonacci(20) + areas(50_000) + words(text);
        System.out.println(result);
    }
}
