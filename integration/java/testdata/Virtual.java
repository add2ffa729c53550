import java.util.concurrent.locks.LockSupport;

/** Virtual threads that work below a chain of methods, and wait in between: their callers are frozen then. */
public class Virtual {
    static volatile long sink;

    static void burn() {
        long x = 0;
        for (int i = 0; i < 300_000; i++) {
            x += i * 31L ^ (x >>> 3);
        }
        sink = x;
    }

    static void work() {
        for (;;) {
            burn();
            LockSupport.parkNanos(200_000);
            burn();
        }
    }

    static void chain(int depth) {
        if (depth > 0) {
            chain(depth - 1);
        } else {
            work();
        }
        sink++;
    }

    /** Returns into its caller, which is thawed then. */
    static void shallow(int depth) {
        if (depth > 0) {
            shallow(depth - 1);
        } else {
            LockSupport.parkNanos(200_000);
        }
        burn();
    }

    static void first() {
        chain(20);
        sink++;
    }

    static void second() {
        for (;;) {
            shallow(20);
        }
    }

    static void platform() {
        for (;;) {
            burn();
        }
    }

    public static void main(String[] args) throws Exception {
        Thread.ofVirtual().start(Virtual::first);
        Thread.ofVirtual().start(Virtual::second);
        Thread.ofPlatform().start(Virtual::platform);
        System.out.println("begun");
        Thread.sleep(Long.MAX_VALUE);
    }
}
