import java.util.concurrent.locks.LockSupport;
import jdk.internal.vm.Continuation;
import jdk.internal.vm.ContinuationScope;

/**
 * Virtual threads that work below a chain of methods, and wait in between: their callers are frozen then. chainA calls
 * chainB, which calls chainC, which calls chainA, so that the order of the frames is known.
 */
public class Virtual {
    static final int DEPTH = 150, NESTED = 60;
    static final ContinuationScope SCOPE = new ContinuationScope("Virtual");
    static volatile long sink;

    interface Work {
        void run();
    }

    static void burn() {
        long x = 0;
        for (int i = 0; i < 300_000; i++) {
            x += i * 31L ^ (x >>> 3);
        }
        sink = x;
    }

    static void chainA(int depth, long a, long b, Work work) {
        if (depth > 0) {
            chainB(depth - 1, a + 1, b, work);
        } else {
            work.run();
        }
        sink++;
    }

    /** Has arguments on the stack: registers take six. */
    static void chainB(int depth, long a, long b, Work work) {
        if (depth > 0) {
            chainC(depth - 1, a, b, a + b, a - b, 1, 2, 3, 4, work);
        } else {
            work.run();
        }
        sink++;
    }

    static void chainC(int depth, long a, long b, long c, long d, long e, long f, long g, long h, Work work) {
        if (depth > 0) {
            chainA(depth - 1, a + c, b + d + e + f + g + h, work);
        } else {
            work.run();
        }
        sink++;
    }

    static void work() {
        for (;;) {
            burn();
            LockSupport.parkNanos(200_000);
            burn();
        }
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

    /** Waits on its way down, with ever more frames. */
    static void nest(int depth) {
        LockSupport.parkNanos(1000);
        if (depth > 0) {
            nest(depth - 1);
        } else {
            for (int i = 0; i < 20; i++) {
                burn();
                LockSupport.parkNanos(200_000);
            }
        }
    }

    static void first() {
        chainA(DEPTH, 1, 2, Virtual::work);
        sink++;
    }

    static void second() {
        for (;;) {
            shallow(DEPTH);
        }
    }

    static void third() {
        for (;;) {
            chainA(DEPTH, 1, 2, () -> nest(NESTED));
        }
    }

    /** Holds a lock while it waits: up to JDK 23 that pins its frames to the stack. */
    static void pinned() {
        Object lock = new Object();
        chainA(DEPTH, 1, 2, () -> {
            for (;;) {
                synchronized (lock) {
                    burn();
                    LockSupport.parkNanos(200_000);
                }
                LockSupport.parkNanos(200_000);
            }
        });
    }

    static void yields() {
        for (;;) {
            burn();
            Continuation.yield(SCOPE);
            burn();
        }
    }

    /** A continuation without a virtual thread. */
    static void generator() {
        Continuation c = new Continuation(SCOPE, () -> chainA(DEPTH, 1, 2, Virtual::yields));
        for (;;) {
            c.run();
        }
    }

    /** Makes the collector move objects. */
    static void garbage() {
        Object[] kept = new Object[1000];
        for (int i = 0;; i = (i + 7) % kept.length) {
            kept[i] = new byte[2000];
            if (i == 0) {
                LockSupport.parkNanos(2_000_000);
            }
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
        Thread.ofVirtual().start(Virtual::third);
        Thread.ofVirtual().start(Virtual::pinned);
        Thread.ofPlatform().start(Virtual::generator);
        Thread.ofPlatform().start(Virtual::garbage);
        Thread.ofPlatform().start(Virtual::platform);
        System.out.println("begun");
        Thread.sleep(Long.MAX_VALUE);
    }
}
