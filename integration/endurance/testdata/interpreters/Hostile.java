/**
 * Hostile: methods that call each other 200 deep, the last of which never returns. A part of them is compiled.
 * Hostile good: a program that has its methods' names, and makes objects all the time.
 */
public class Hostile {
    static int sum;

    interface Step { int run(int steps, Step next, int depth); }

    static class Inner<T> implements Step {
        public int run(int steps, Step next, int depth) {
            return 1 + (depth == 0 ? leaf(steps) : next.run(steps, this, depth - 1));
        }
    }

    static int leaf(int steps) {
        int s = 1;
        for (int i = 0; i != steps; i = (i + 1) & 0x3fffffff) s = s * 3 + i;
        return s;
    }

    static int first(int steps, Step next, int depth) {
        return second(steps, next, depth) + sum;
    }

    static int second(int steps, Step next, int depth) {
        Step step = (a, b, c) -> b.run(a, next, c) ^ 3;
        return step.run(steps, new Inner<String>(), depth);
    }

    static void goodLeaf() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 2000; i++) text.append(i);
        sum += text.length();
    }

    static void goodCaller() throws InterruptedException {
        for (long end = System.currentTimeMillis() + 600_000; System.currentTimeMillis() < end;) {
            for (int i = 0; i < 50; i++) goodLeaf();
            Thread.sleep(5);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        if (args.length > 0) {
            goodCaller();
            return;
        }
        for (int i = 0; i < 30_000; i++) sum += first(3, new Inner<Long>(), 40); // those are compiled
        Thread end = new Thread(() -> {
            try {
                Thread.sleep(600_000);
            } catch (InterruptedException e) {
                return;
            }
            System.exit(0);
        });
        end.setDaemon(true);
        end.start();
        first(-1, new Inner<Long>(), 200);
    }
}
